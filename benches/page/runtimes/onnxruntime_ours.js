// The weights come through weightstream, which requests them while ONNX Runtime is loaded and compiled.
import { listCached, openFile } from "/pkg/weightstream.js";
import { prepare } from "/pkg/weightstream.onnxruntime.js";

export async function outputs(model) {
  const folder = `/models/${model}/onnx`;
  const prepared = prepare(`${folder}/model.apr`, "model.safetensors");
  const [graph, { firstOutput }] = await Promise.all([bytes(`${folder}/model.onnx`), import("./onnxruntime.js")]);
  const values = await firstOutput(graph, { externalData: prepared.externalData });
  globalThis.stats = { ...(await prepared.loader).stats };
  prepared.close();
  return values;
}

async function bytes(url) {
  const file = await openFile(url);
  const bytes = await file.bytes();
  file.close();
  return bytes;
}

// Resolves after all earlier writes.
export const settle = listCached;
