// All files come through weightstream, the weights on demand.
import { StreamingLoader, listCached } from "/pkg/weightstream.js";
import { externalData } from "/pkg/weightstream.onnxruntime.js";
import { connect } from "/pkg/weightstream.transformers.js";
import { env, firstOutput } from "./transformers.js";

connect(env);

export async function outputs(model) {
  const loader = await StreamingLoader.open(`/models/${model}/onnx/model.apr`, { cache: "auto" });
  const values = await firstOutput(model, {
    session_options: { externalData: await externalData(loader, "model.safetensors") },
  });
  globalThis.stats = { ...loader.stats };
  loader.close();
  return values;
}

export const settle = listCached;
