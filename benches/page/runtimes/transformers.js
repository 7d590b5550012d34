// What apps with transformers.js have in common.
import { AutoModel, AutoTokenizer, LogLevel, env } from "/npm/@huggingface/transformers/dist/transformers.web.js";
import { Tensor } from "onnxruntime-common";
import { floats, inputs } from "./inputs.js";

export { env };

env.logLevel = LogLevel.ERROR;
env.allowLocalModels = false;
env.remoteHost = location.origin;
env.remotePathTemplate = "models/{model}/";
env.backends.onnx.wasm.numThreads = 1;
env.backends.onnx.wasm.wasmPaths = {
  mjs: "/npm/onnxruntime-web/dist/ort-wasm-simd-threaded.jspi.mjs",
  wasm: "/npm/onnxruntime-web/dist/ort-wasm-simd-threaded.jspi.wasm",
};

const SENTENCE = "Weights are streamed into the page, and a lazy Blob is read on demand.";

export async function firstOutput(name, options) {
  const loading = AutoModel.from_pretrained(name, { dtype: "fp32", ...options });
  if (!name.startsWith("large/")) {
    const [model, tokenizer] = await Promise.all([loading, AutoTokenizer.from_pretrained(name)]);
    return floats(await model(await tokenizer([SENTENCE])));
  }
  const [session] = Object.values((await loading).sessions);
  return floats(await session.run(inputs(Tensor, session)));
}
