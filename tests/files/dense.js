// Sparse tensors that are loaded as dense ones (`layout: "dense"`), compared with those that NumPy makes; and arrays
// that tensors are loaded into.
import { Failures, hex } from "./common.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");

const LOADERS = [{ workers: 0 }, { workers: 2 }, { inWorker: true }];
const FILE = "/fixtures/dense/sparse.zt";
const bytesOf = ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength);
const expected = await (await fetch("/fixtures/dense/expected.json")).json();

export async function sparseTensorsAsDenseOnes() {
  const failures = new Failures();
  for (const options of LOADERS) {
    const loader = await StreamingLoader.open(FILE, { cache: "none", ...options });
    for (const [name, { own, F32 }] of Object.entries(expected)) {
      const what = `${name} ${JSON.stringify(options)}`;
      const { data, dtype, shape, layout, components } = await loader.loadTensor(name, { layout: "dense" });
      failures.same(`${what}: values`, await hex(bytesOf(data)), own);
      failures.same(`${what}: form`, [layout, data.length, components.size, components.get("data").data === data],
        ["dense", shape.reduce((product, size) => product * size, 1), 1, true]);
      if (/^[IUB]\d|BOOL/.test(dtype)) {
        await failures.rejects(what, loader.loadTensor(name, { layout: "dense", as: "F32" }), "UNSUPPORTED", dtype);
        continue;
      }
      const floats = await loader.loadTensor(name, { layout: "dense", as: "F32" });
      failures.same(`${what}: floats`, await hex(bytesOf(floats.data)), F32 ?? own);
      const into = new floats.data.constructor(data.length).fill(7);
      const filled = await loader.loadTensor(name, { layout: "dense", as: "F32", into });
      failures.same(`${what}: into`, await hex(bytesOf(into)), F32 ?? own);
      failures.same(`${what}: its memory`, filled.data.buffer === into.buffer, true);
    }
    let count = 0;
    for await (const { name, data } of loader.tensors({ layout: "dense" })) {
      failures.same(`${name} of all`, await hex(bytesOf(data)), expected[name].own);
      count++;
    }
    failures.same("count", count, Object.keys(expected).length);
    loader.close();
  }
  return failures;
}

export async function denseTensorsThatAreRefused() {
  const failures = new Failures();
  for (const options of LOADERS) {
    const loader = await StreamingLoader.open("/fixtures/dense/refused.zt", { cache: "none", ...options });
    const dense = (name, others) => loader.loadTensor(name, { layout: "dense", ...others });
    await failures.rejects("huge", dense("huge"), "LIMIT", "4398046511104 bytes");
    await failures.rejects("twice", dense("twice"), "UNSUPPORTED", "position 3");
    await failures.rejects("rows", dense("twice", { rows: [0, 1] }), "INVALID_ARGUMENT", "sparse_coo");
    await failures.rejects("another layout", dense("twice", { layout: "csr" }), "INVALID_ARGUMENT", '"dense"');
    loader.close();
    const small = await StreamingLoader.open(FILE, { cache: "none", maxMemory: 1000, ...options });
    await failures.rejects("maxMemory", small.loadTensor("csr.f32", { layout: "dense" }), "LIMIT", "252000 bytes");
    small.close();
  }
  return failures;
}

export async function arraysOfOtherElementsAreRefused() {
  const failures = new Failures();
  for (const options of LOADERS) {
    const loader = await StreamingLoader.open("/fixtures/gguf/quant.gguf", { cache: "none", ...options });
    const name = "q.q4_0";
    const stored = (await loader.loadTensor(name)).data.length;
    const { length } = (await loader.loadTensor(name, { as: "F32" })).data;
    for (const [into, as, ...wanted] of [
      [new Float32Array(stored / 4), undefined, "INVALID_ARGUMENT", "Float32Array", "Q4_0", name],
      [new Int32Array(length), "F32", "INVALID_ARGUMENT", "Int32Array", "F32", name],
      [new Uint8Array(stored), undefined, "no error"],
      [new Uint8ClampedArray(stored), undefined, "no error"],
      [new Uint8Array(length * 4), "F32", "no error"],
      [new ArrayBuffer(length * 4), "F32", "no error"],
      [new DataView(new ArrayBuffer(length * 4)), "F32", "no error"],
      [new Float32Array(length), "F32", "no error"],
    ]) {
      const what = `${Object.prototype.toString.call(into)} as ${as} ${JSON.stringify(options)}`;
      await failures.rejects(what, loader.loadTensor(name, { into, as }), ...wanted);
    }
    loader.close();
  }
  return failures;
}
