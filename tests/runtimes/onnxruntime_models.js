// ONNX models that others have published: split into graph and weights, they compute what the original computes.

const { StreamingLoader } = await import("/pkg/weightstream.js");
const { externalData } = await import("/pkg/weightstream.onnxruntime.js");
const { Failures, hex } = await import("/files/common.js");

const DIST = "/npm/onnxruntime-web/dist/";

const hasJspi = WebAssembly.Suspending !== undefined || navigator.userAgent.includes("Chrome");
const BUILDS = [...(hasJspi ? ["ort.jspi.min.mjs"] : []), "ort.wasm.min.mjs"];

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

async function outputs(ort, session) {
  const found = await session.run(inputsOf(ort, session.inputNames));
  await session.release();
  const entries = Object.entries(found);
  return Object.fromEntries(entries.map(([name, { dims, data }]) => [name, [dims, Array.from(data, Number)]]));
}

async function compare(name) {
  const failures = new Failures();
  for (const build of BUILDS) {
    const ort = await import(`${DIST}${build}`);
    ort.env.wasm.wasmPaths = DIST;
    ort.env.wasm.numThreads = 1;
    const executionProviders = ["wasm"];
    const original = await ort.InferenceSession.create(`/onnx/${name}/original.onnx`, { executionProviders });
    const expected = await outputs(ort, original);
    const values = Object.values(expected).flatMap(([, data]) => data);
    failures.same(`${name}: outputs`, values.length > 100 && values.every(Number.isFinite), true);

    const loader = await StreamingLoader.open(`/onnx/${name}/model.apr`, { cache: "none" });
    const session = await ort.InferenceSession.create(`/onnx/${name}/model.onnx`, {
      executionProviders,
      externalData: await externalData(loader, "model.safetensors"),
    });
    failures.same(`${name} with ${build}`, await outputs(ort, session), expected);
    loader.close();
  }
  return failures;
}

export const minilmInt8 = () => compare("minilm-int8");

export const paraphrase = () => compare("paraphrase");

export const sileroVad = () => compare("silero-vad");

// The initializers of a graph are tensors, with the same bytes as the weights that were split from it.
export async function initializersAsTensors() {
  const failures = new Failures();
  const weights = await StreamingLoader.open("/onnx/minilm-int8/model.apr", { cache: "none" });
  const graph = await StreamingLoader.open("/onnx/minilm-int8/original.onnx", { cache: "none" });
  failures.same("format", (await graph.loadMetadata()).format, "onnx");
  const names = new Set((await graph.loadIndex()).map(({ name }) => name));
  let compared = 0;
  for await (const { name, dtype, shape, data } of weights.tensors()) {
    const tensor = await graph.loadTensor(name);
    failures.same(name, [names.has(name), tensor.dtype, tensor.shape], [true, dtype, shape]);
    failures.same(`${name}: bytes`, await hex(tensor.data), await hex(data));
    compared++;
  }
  failures.same("tensors", compared > 30, true);
  graph.close();
  weights.close();
  return failures;
}
