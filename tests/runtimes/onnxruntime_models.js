// ONNX models that others have published: split into graph and weights, they compute what the original computes.
import { BUILDS, outputs, runtimeOf } from "./published.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");
const { externalData } = await import("/pkg/weightstream.onnxruntime.js");
const { Failures, hex } = await import("/files/common.js");

async function compare(name) {
  const failures = new Failures();
  for (const build of BUILDS) {
    const ort = await runtimeOf(build);
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
