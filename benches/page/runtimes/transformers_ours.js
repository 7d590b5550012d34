// All files come through weightstream. It requests the weights while transformers.js and ONNX Runtime are loaded.
import { listCached } from "/pkg/weightstream.js";
import { prepare } from "/pkg/weightstream.onnxruntime.js";
import { connect } from "/pkg/weightstream.transformers.js";

export async function outputs(model) {
  const prepared = prepare(`/models/${model}/onnx/model.apr`, "model.safetensors");
  const { env, firstOutput } = await import("./transformers.js");
  connect(env);
  const values = await firstOutput(model, { session_options: { externalData: prepared.externalData } });
  globalThis.stats = { ...(await prepared.loader).stats };
  prepared.close();
  return values;
}

export const settle = listCached;
