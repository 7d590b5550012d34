// ONNX Runtime Web fetches the model itself.
import { firstOutput } from "./onnxruntime.js";

const EXTERNAL = "model.onnx_data";

export async function outputs(model) {
  const folder = `/models/${model}/onnx`;
  const externalData = model.startsWith("large/") ? [{ path: EXTERNAL, data: `${folder}/${EXTERNAL}` }] : [];
  return firstOutput(`${folder}/model.onnx`, { externalData });
}

export async function settle() {}
