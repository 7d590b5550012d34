// A GGUF file with a small Llama model of random weights: it loads, and what it writes is nonsense. Each call gives the
// same bytes.

const ALIGNMENT = 32;
const HEADS = 4;
const CONTEXT = 256;

// Types of metadata values, and of tensors.
const [UINT16, UINT32, INT32, FLOAT32, STRING, ARRAY] = [2, 4, 5, 6, 8, 9];
const F32 = 0;

// The model in `count` files, split as llama.cpp splits it. `width` is the length of an embedding.
export function llamaModel({ width = 32, layers = 2, count = 1, seed = 1 } = {}) {
  const vocabulary = tokens();
  const tensors = tensorsOf(width, layers, vocabulary.length, seed);
  const perFile = Math.ceil(tensors.length / count);
  return Array.from({ length: count }, (_, number) => {
    const split = count === 1 ? [] : [
      ["split.no", UINT16, number], ["split.count", UINT16, count], ["split.tensors.count", INT32, tensors.length],
    ];
    const metadata = number === 0 ? [...metadataOf(width, layers, vocabulary), ...split] : split;
    return gguf(metadata, tensors.slice(number * perFile, (number + 1) * perFile));
  });
}

// A vocabulary of single letters. It has the bytes of ASCII only, because a text of random other bytes is not UTF-8.
function tokens() {
  const [normal, unknown, control, byte] = [1, 2, 3, 6];
  const bytes = Array.from({ length: 128 }, (_, at) => `<0x${at.toString(16).toUpperCase().padStart(2, "0")}>`);
  return [
    { text: "<unk>", type: unknown }, { text: "<s>", type: control }, { text: "</s>", type: control },
    ...bytes.map((text) => ({ text, type: byte })),
    ...Array.from("\u2581abcdefghijklmnopqrstuvwxyz", (text) => ({ text, type: normal })),
  ];
}

const metadataOf = (width, layers, vocabulary) => [
  ["general.architecture", STRING, "llama"],
  ["general.alignment", UINT32, ALIGNMENT],
  ["llama.context_length", UINT32, CONTEXT],
  ["llama.embedding_length", UINT32, width],
  ["llama.block_count", UINT32, layers],
  ["llama.feed_forward_length", UINT32, 2 * width],
  ["llama.attention.head_count", UINT32, HEADS],
  ["llama.rope.dimension_count", UINT32, width / HEADS],
  ["llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5],
  ["tokenizer.ggml.model", STRING, "llama"],
  ["tokenizer.ggml.tokens", ARRAY, { type: STRING, values: vocabulary.map(({ text }) => text) }],
  ["tokenizer.ggml.scores", ARRAY, { type: FLOAT32, values: vocabulary.map(() => 0) }],
  ["tokenizer.ggml.token_type", ARRAY, { type: INT32, values: vocabulary.map(({ type }) => type) }],
  ["tokenizer.ggml.bos_token_id", UINT32, 1],
  ["tokenizer.ggml.eos_token_id", UINT32, 2],
  ["tokenizer.ggml.unknown_token_id", UINT32, 0],
];

function tensorsOf(width, layers, vocabularySize, seed) {
  const random = generator(seed);
  const matrix = (name, ...shape) => {
    const length = shape.reduce((a, b) => a * b);
    return { name, shape, values: Float32Array.from({ length }, () => random() / Math.sqrt(shape[0]) * 3) };
  };
  const norm = (name) => ({ name, shape: [width], values: new Float32Array(width).fill(1) });
  const layer = (at) => [
    norm(`blk.${at}.attn_norm.weight`),
    ...["attn_q", "attn_k", "attn_v", "attn_output"].map((name) => matrix(`blk.${at}.${name}.weight`, width, width)),
    norm(`blk.${at}.ffn_norm.weight`),
    matrix(`blk.${at}.ffn_gate.weight`, width, 2 * width),
    matrix(`blk.${at}.ffn_up.weight`, width, 2 * width),
    matrix(`blk.${at}.ffn_down.weight`, 2 * width, width),
  ];
  return [
    matrix("token_embd.weight", width, vocabularySize),
    ...Array.from({ length: layers }, (_, at) => layer(at)).flat(),
    norm("output_norm.weight"),
    matrix("output.weight", width, vocabularySize),
  ];
}

// Numbers from -1 to 1 (xorshift32).
function generator(seed) {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state | 0) / 2 ** 31;
  };
}

function gguf(metadata, tensors) {
  const writer = new Writer();
  writer.raw(new TextEncoder().encode("GGUF"));
  writer.value(UINT32, 3);
  writer.u64(tensors.length);
  writer.u64(metadata.length);
  for (const [key, type, value] of metadata) {
    writer.value(STRING, key);
    writer.value(UINT32, type);
    writer.value(type, value);
  }
  let offset = 0;
  for (const { name, shape, values } of tensors) {
    writer.value(STRING, name);
    writer.value(UINT32, shape.length);
    for (const dimension of shape) writer.u64(dimension);
    writer.value(UINT32, F32);
    writer.u64(offset);
    offset += aligned(values.byteLength);
  }
  writer.align();
  for (const { values } of tensors) {
    writer.raw(new Uint8Array(values.buffer));
    writer.align();
  }
  return writer.bytes();
}

const aligned = (length) => Math.ceil(length / ALIGNMENT) * ALIGNMENT;

class Writer {
  #pieces = [];
  #length = 0;

  raw(bytes) {
    this.#pieces.push(bytes);
    this.#length += bytes.length;
  }

  u64(value) {
    this.raw(new Uint8Array(BigUint64Array.of(BigInt(value)).buffer));
  }

  // A metadata value. The platform is little-endian, as the format is.
  value(type, value) {
    if (type === STRING) {
      const text = new TextEncoder().encode(value);
      this.u64(text.length);
      this.raw(text);
    } else if (type === ARRAY) {
      this.value(UINT32, value.type);
      this.u64(value.values.length);
      for (const each of value.values) this.value(value.type, each);
    } else {
      const Numbers = { [UINT16]: Uint16Array, [UINT32]: Uint32Array, [INT32]: Int32Array, [FLOAT32]: Float32Array };
      this.raw(new Uint8Array(Numbers[type].of(value).buffer));
    }
  }

  align() {
    this.raw(new Uint8Array(aligned(this.#length) - this.#length));
  }

  bytes() {
    const bytes = new Uint8Array(this.#length);
    let at = 0;
    for (const piece of this.#pieces) {
      bytes.set(piece, at);
      at += piece.length;
    }
    return bytes;
  }
}
