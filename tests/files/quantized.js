// A GGUF file of tensors in the dtypes that can be converted on a GPU, and their values as F32.

const ALIGNMENT = 32;

// Each type as GGUF numbers it, with the bytes of a block, and the values of a block as ggml defines them.
const TYPES = {
  F32: { number: 0, bytes: 4, values: 1, decode: (block) => [block.getFloat32(0, true)] },
  F16: { number: 1, bytes: 2, values: 1, decode: (block) => [half(block, 0)] },
  BF16: { number: 30, bytes: 2, values: 1, decode: (block) => [float32(block.getUint16(0, true) << 16)] },
  Q8_0: {
    number: 8, bytes: 34, values: 32, decode: (block) => count(32).map((at) => half(block, 0) * block.getInt8(2 + at)),
  },
  Q4_0: {
    number: 2,
    bytes: 18,
    values: 32,
    decode: (block) => count(32).map((at) => {
      const quants = block.getUint8(2 + (at % 16));
      return half(block, 0) * ((at < 16 ? quants & 15 : quants >> 4) - 8);
    }),
  },
  Q4_K: {
    number: 12,
    bytes: 144,
    values: 256,
    decode: (block) => count(256).map((at) => {
      const group = Math.floor(at / 32);
      const packed = (index) => block.getUint8(4 + index);
      let [scale, minimum] = [packed(group) & 63, packed(group + 4) & 63];
      if (group >= 4) {
        scale = (packed(group + 4) & 15) | ((packed(group - 4) >> 6) << 4);
        minimum = (packed(group + 4) >> 4) | ((packed(group) >> 6) << 4);
      }
      const quants = block.getUint8(16 + Math.floor(group / 2) * 32 + (at % 32));
      const quant = group % 2 === 0 ? quants & 15 : quants >> 4;
      return half(block, 0) * scale * quant - half(block, 2) * minimum;
    }),
  },
};

const count = (length) => Array.from({ length }, (_, at) => at);

function float32(bits) {
  return new DataView(Uint32Array.of(bits).buffer).getFloat32(0, true);
}

function half(view, at) {
  const bits = view.getUint16(at, true);
  const [exponent, mantissa] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent === 0 ? mantissa * 2 ** -24 : (1 + mantissa / 1024) * 2 ** (exponent - 15);
  return bits & 0x8000 ? -size : size;
}

// Blocks of random bytes whose scales are finite, in tensors of several lengths: fewer bytes than one write, and more.
export function quantizedTensors() {
  const tensors = [];
  let seed = 1;
  const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) >>> 24;
  for (const [type, { bytes, values, decode }] of Object.entries(TYPES)) {
    for (const blocks of [1, 3, Math.ceil(2_300_000 / bytes)]) {
      const data = new Uint8Array(blocks * bytes).map(random);
      const view = new DataView(data.buffer);
      const decoded = new Float32Array(blocks * values);
      for (let block = 0; block < blocks; block++) {
        const start = block * bytes;
        const scales = type === "F32" ? [] : type === "Q4_K" ? [0, 2] : [0];
        for (const scale of scales) {
          const isLargest = type === "BF16" ? 0x7f80 : 0x7c00;
          const bits = view.getUint16(start + scale, true);
          if ((bits & isLargest) === isLargest) view.setUint16(start + scale, bits & ~0x4000, true);
        }
        if (type === "F32") {
          const value = (random() - 128) * 2 ** ((random() % 60) - 40) * (1 + random() / 3000);
          view.setFloat32(start, value, true);
        }
        decoded.set(decode(new DataView(data.buffer, start, bytes)), block * values);
      }
      tensors.push({ name: `${type}.${blocks}`, type, data, values: decoded, shape: [blocks * values] });
    }
  }
  return tensors;
}

export function ggufOf(tensors) {
  const parts = [];
  const numbers = (kind, ...list) => list.forEach((value) => {
    const bytes = new DataView(new ArrayBuffer(kind === 32 ? 4 : 8));
    if (kind === 32) bytes.setUint32(0, value, true);
    else bytes.setBigUint64(0, BigInt(value), true);
    parts.push(new Uint8Array(bytes.buffer));
  });
  parts.push(new TextEncoder().encode("GGUF"));
  numbers(32, 3);
  numbers(64, tensors.length, 0);
  let offset = 0;
  for (const { name, type, number, data, shape } of tensors) {
    numbers(64, name.length);
    parts.push(new TextEncoder().encode(name));
    numbers(32, shape.length);
    numbers(64, ...[...shape].reverse());
    numbers(32, number ?? TYPES[type].number);
    numbers(64, offset);
    offset += Math.ceil(data.length / ALIGNMENT) * ALIGNMENT;
  }
  const padding = (length) => new Uint8Array(Math.ceil(length / ALIGNMENT) * ALIGNMENT - length);
  parts.push(padding(parts.reduce((sum, { length }) => sum + length, 0)));
  for (const { data } of tensors) parts.push(data, padding(data.length));
  const file = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  parts.reduce((at, part) => (file.set(part, at), at + part.length), 0);
  return file;
}
