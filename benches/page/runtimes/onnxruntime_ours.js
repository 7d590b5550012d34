// The weights come through weightstream.
import { StreamingLoader, listCached } from "/pkg/weightstream.js";
import { externalData } from "/pkg/weightstream.onnxruntime.js";
import { firstOutput } from "./onnxruntime.js";

export async function outputs(model) {
  const folder = `/models/${model}/onnx`;
  const loader = await StreamingLoader.open(`${folder}/model.apr`, { cache: "auto" });
  const values = await firstOutput(`${folder}/model.onnx`, {
    externalData: await externalData(loader, "model.safetensors"),
  });
  globalThis.stats = { ...loader.stats };
  loader.close();
  return values;
}

// Resolves after all earlier writes.
export const settle = listCached;
