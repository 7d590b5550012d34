// Tensors that are converted to floats while they are loaded (`as`), compared with the output of reference packages.
import { Failures, hex } from "./common.js";
import { ggufOf } from "./quantized.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");

// The types of GGUF by their numbers.
const NUMBERS = {
  F16: 1, Q4_0: 2, Q4_1: 3, Q5_0: 6, Q5_1: 7, Q8_0: 8, Q2_K: 10, Q3_K: 11, Q4_K: 12, Q5_K: 13, Q6_K: 14, Q8_K: 15,
  IQ2_XXS: 16, IQ2_XS: 17, IQ3_XXS: 18, IQ1_S: 19, IQ4_NL: 20, IQ3_S: 21, IQ2_S: 22, IQ4_XS: 23, IQ1_M: 29, BF16: 30,
  TQ1_0: 34, TQ2_0: 35, MXFP4: 39, NVFP4: 40, Q1_0: 41, Q2_0: 42,
};
const LOADERS = [{ workers: 0 }, { workers: 2 }, { inWorker: true }];

const hasHalves = "Float16Array" in globalThis;
const bytesOf = ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength);
const get = async (path) => (await fetch(`/fixtures/${path}`)).arrayBuffer();
const json = async (path) => (await fetch(`/fixtures/${path}`)).json();

export async function everyType() {
  const failures = new Failures();
  const expected = await json("dequantize/expected.json");
  const tensors = await Promise.all(Object.entries(NUMBERS).map(async ([name, number]) => {
    const data = new Uint8Array(await get(`dequantize/${name}.bin`));
    return { name, number, data, shape: [expected[name].values] };
  }));
  const file = new Blob([ggufOf(tensors)]);
  for (const options of LOADERS) {
    const loader = await StreamingLoader.open(file, options);
    let count = 0;
    for await (const { name, dtype, data } of loader.tensors({ as: "F32" })) {
      const what = `${name} ${JSON.stringify(options)}`;
      failures.same(`${what}: dtype`, [dtype, data instanceof Float32Array], ["F32", true]);
      failures.same(`${what}: values`, await hex(bytesOf(data)), expected[name].sha256);
      count++;
    }
    failures.same(`count ${JSON.stringify(options)}`, count, tensors.length);
    loader.close();
  }
  return failures;
}

export async function partsOfAModel() {
  const failures = new Failures();
  const expected = await json("dequantize/quant.gguf.json");
  for (const options of LOADERS) {
    const loader = await StreamingLoader.open("/fixtures/gguf/quant.gguf", { cache: "none", ...options });
    for (const [name, sha256] of Object.entries(expected)) {
      const what = `${name} ${JSON.stringify(options)}`;
      const { data, shape, components } = await loader.loadTensor(name, { as: "F32" });
      failures.same(`${what}: values`, await hex(bytesOf(data)), sha256);
      failures.same(`${what}: component`, [components.get("data").dtype, components.get("data").data === data],
        ["F32", true]);
      const into = new Float32Array(data.length);
      const filled = await loader.loadTensor(name, { as: "F32", into });
      failures.same(`${what}: into`, [filled.data.buffer === into.buffer, await hex(bytesOf(into))], [true, sha256]);
      const row = data.length / shape[0];
      const rows = await loader.loadTensor(name, { as: "F32", rows: [1, 2] });
      failures.same(`${what}: rows`, await hex(bytesOf(rows.data)), await hex(bytesOf(data.slice(row, 2 * row))));
      if (hasHalves) {
        const halves = await loader.loadTensor(name, { as: "F16" });
        failures.same(`${what}: F16`, [halves.dtype, halves.data instanceof Float16Array], ["F16", true]);
        failures.same(`${what}: halves`, await hex(bytesOf(halves.data)), await hex(bytesOf(Float16Array.from(data))));
      }
    }
    loader.close();
  }
  return failures;
}

export async function whatCannotBeConverted() {
  const failures = new Failures();
  const loader = await StreamingLoader.open("/fixtures/gguf/quant.gguf", { cache: "none" });
  for (const [options, code, part] of [
    [{ as: "F64" }, "INVALID_ARGUMENT", "`as`"],
    [{ usage: 1 }, "INVALID_ARGUMENT", "`usage` requires `device`"],
    [{ as: "F32", into: new ArrayBuffer(7) }, "INVALID_ARGUMENT", "`into`"],
    ...(hasHalves ? [] : [[{ as: "F16" }, "UNSUPPORTED", "Float16Array"]]),
  ]) {
    await failures.rejects(JSON.stringify(options), loader.loadTensor("q.q4_0", options), code, part);
  }
  loader.close();
  const header = JSON.stringify({
    integers: { dtype: "I16", shape: [2], data_offsets: [0, 4] },
    scales: { dtype: "F8_E8M0", shape: [4], data_offsets: [4, 8] },
  }).padEnd(160);
  const model = new Blob([Uint8Array.of(160, 0, 0, 0, 0, 0, 0, 0), header, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8)]);
  const others = await StreamingLoader.open(model);
  for await (const { name, dtype, data } of others.tensors({ names: ["integers"], as: "F32" })) {
    failures.same(name, [dtype, data.constructor.name], ["I16", "Int16Array"]);
  }
  await failures.rejects("integers", others.loadTensor("integers", { as: "F32" }), "UNSUPPORTED", "I16");
  await failures.rejects("scales", others.loadTensor("scales", { as: "F32" }), "UNSUPPORTED", "F8_E8M0");
  others.close();
  const sparse = await StreamingLoader.open("/fixtures/dense/sparse.zt");
  await failures.rejects("a sparse tensor", sparse.loadTensor("csr.f32", { as: "F32" }), "UNSUPPORTED", "sparse_csr");
  sparse.close();
  return failures;
}
