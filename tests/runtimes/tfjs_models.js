// Small models for TensorFlow.js.

const encode = (value) => new TextEncoder().encode(JSON.stringify(value));

// The files of a model whose weights are split at the given lengths.
export function sharded({ json, weights }, lengths) {
  const pieces = [];
  for (let at = 0, next = 0; at < weights.length; at += lengths[next++]) {
    pieces.push(weights.slice(at, Math.min(at + lengths[next], weights.length)));
  }
  const name = (at) => `group1-shard${at + 1}of${pieces.length}.bin`;
  const [{ weights: specs }] = json.weightsManifest;
  const manifest = [{ paths: pieces.map((_, at) => name(at)), weights: specs }];
  const files = { "model.json": encode({ ...json, weightsManifest: manifest }) };
  pieces.forEach((piece, at) => (files[name(at)] = piece));
  return files;
}

const values = (length, seed) => Float32Array.from({ length }, (_, at) => Math.sin(at * 12.9898 + seed) / 8);

function joinedBytes(arrays) {
  const all = new Uint8Array(arrays.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let at = 0;
  for (const { buffer, byteOffset, byteLength } of arrays) {
    all.set(new Uint8Array(buffer, byteOffset, byteLength), at);
    at += byteLength;
  }
  return all;
}

// A graph of two matrix products. The second matrix is quantized.
export function graphModel() {
  const dims = (...sizes) => ({ shape: { shape: { dim: sizes.map((size) => ({ size: String(size) })) } } });
  const type = { type: "DT_FLOAT" };
  const constant = (name, dtype = "DT_FLOAT") => ({
    name, op: "Const", attr: { dtype: { type: dtype }, value: { tensor: { dtype, tensorShape: {} } } },
  });
  const node = [
    { name: "x", op: "Placeholder", attr: { dtype: type, ...dims(1, 300) } },
    constant("one"), constant("bias"), constant("two"), constant("axis", "DT_INT32"),
    { name: "product", op: "MatMul", input: ["x", "one"], attr: { T: type } },
    { name: "sum", op: "AddV2", input: ["product", "bias"], attr: { T: type } },
    { name: "relu", op: "Relu", input: ["sum"], attr: { T: type } },
    { name: "last", op: "MatMul", input: ["relu", "two"], attr: { T: type } },
    { name: "y", op: "ExpandDims", input: ["last", "axis"], attr: { T: type } },
  ];
  const bytes = Uint8Array.from({ length: 400 * 10 }, (_, at) => (at * 37) & 255);
  const weights = joinedBytes([values(300 * 400, 1), values(400, 2), bytes, Int32Array.of(1)]);
  const specs = [
    { name: "one", shape: [300, 400], dtype: "float32" },
    { name: "bias", shape: [400], dtype: "float32" },
    { name: "two", shape: [400, 10], dtype: "float32", quantization: { dtype: "uint8", scale: 0.01, min: -1 } },
    { name: "axis", shape: [], dtype: "int32" },
  ];
  const versions = { producer: 1, minConsumer: 1 };
  const modelTopology = { node, library: {}, versions };
  return { json: { format: "graph-model", modelTopology, weightsManifest: [{ weights: specs }] }, weights };
}

// A model of layers, as TensorFlow.js saves it.
export async function layersModel(tf) {
  const model = tf.sequential();
  model.add(tf.layers.dense({ units: 20, inputShape: [300], activation: "relu" }));
  model.add(tf.layers.dense({ units: 4, activation: "softmax" }));
  let saved;
  await model.save(tf.io.withSaveHandler(async (artifacts) => {
    saved = artifacts;
    return { modelArtifactsInfo: { dateSaved: new Date(), modelTopologyType: "JSON" } };
  }));
  const { modelTopology, format, generatedBy, convertedBy, weightSpecs, weightData } = saved;
  const json = { modelTopology, format, generatedBy, convertedBy, weightsManifest: [{ weights: weightSpecs }] };
  return { json, weights: new Uint8Array(tf.io.CompositeArrayBuffer.join(weightData)) };
}

// Two groups with weights of every kind, and one without weights.
export function oddWeights() {
  const strings = ["", "one", "grüße", "x".repeat(3000)].flatMap((text) => {
    const bytes = new TextEncoder().encode(text);
    return [Uint32Array.of(bytes.length), bytes];
  });
  const first = [
    [{ name: "empty", shape: [0, 3], dtype: "float32" }],
    [{ name: "strings", shape: [2, 2], dtype: "string" }, ...strings],
    [{ name: "flags", shape: [3], dtype: "bool" }, Uint8Array.of(1, 0, 1)],
    [{ name: "complex", shape: [2], dtype: "complex64" }, values(4, 1)],
  ];
  const quantized = (name, type, shape, dtype = "float32") =>
    ({ name, shape, dtype, quantization: { dtype: type, ...(type !== "float16" && { scale: 0.5, min: -3 }) } });
  const second = [
    [quantized("u16", "uint16", [2, 2]), Uint16Array.of(1, 2, 3, 65535)],
    [quantized("f16", "float16", [3]), Uint16Array.of(15360, 1, 31743)],
    [quantized("int", "uint8", [], "int32"), Uint8Array.of(9)],
    [{ name: "nothing", shape: [0], dtype: "int32" }],
  ];
  const groups = [first, second].map((weights, at) => ({
    path: `part${at}.bin`,
    specs: weights.map(([spec]) => spec),
    bytes: joinedBytes(weights.flatMap(([, ...arrays]) => arrays)),
  }));
  const manifest = groups.map(({ path, specs }) => ({ paths: [path], weights: specs }));
  manifest.push({ paths: [], weights: [] });
  return { groups, json: encode(manifest) };
}
