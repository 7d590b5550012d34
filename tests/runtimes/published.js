// The ONNX models that others have published: their inputs and outputs in ONNX Runtime Web.

const DIST = "/npm/onnxruntime-web/dist/";

const hasJspi = WebAssembly.Suspending !== undefined || navigator.userAgent.includes("Chrome");
export const BUILDS = [...(hasJspi ? ["ort.jspi.min.mjs"] : []), "ort.wasm.min.mjs"];

export async function runtimeOf(build) {
  const ort = await import(`${DIST}${build}`);
  ort.env.wasm.wasmPaths = DIST;
  ort.env.wasm.numThreads = 1;
  return ort;
}

// The inputs of a sentence of token numbers, and of a frame of sound.
function inputsOf(ort, names) {
  const integers = (values, shape) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), shape);
  const tokens = [101, 2023, 2003, 1037, 3231, 6251, 1012, 102];
  const sound = Float32Array.from({ length: 512 }, (_, at) => Math.sin(at / 7) / 2);
  const known = {
    input_ids: () => integers(tokens, [1, tokens.length]),
    attention_mask: () => integers(tokens.map(() => 1), [1, tokens.length]),
    token_type_ids: () => integers(tokens.map(() => 0), [1, tokens.length]),
    input: () => new ort.Tensor("float32", sound, [1, sound.length]),
    state: () => new ort.Tensor("float32", new Float32Array(256), [2, 1, 128]),
    sr: () => integers([16_000], []),
  };
  return Object.fromEntries(names.map((name) => [name, known[name]()]));
}

export async function run(ort, session) {
  const found = await session.run(inputsOf(ort, session.inputNames));
  const entries = Object.entries(found);
  return Object.fromEntries(entries.map(([name, { dims, data }]) => [name, [dims, Array.from(data, Number)]]));
}

export async function outputs(ort, session) {
  const found = await run(ort, session);
  await session.release();
  return found;
}
