// Each layer computes when its weights have arrived.
import { listCached } from "/pkg/weightstream.js";
import { streamed } from "/pkg/weightstream.onnxruntime.js";
import { floats, inputs } from "./inputs.js";

export async function outputs(model) {
  const folder = `/models/${model}/onnx`;
  const runtime = import("./onnxruntime.js");
  const session = await streamed(`${folder}/model.onnx`, {
    ort: runtime.then(({ ort }) => ort),
    weights: `${folder}/model.apr`,
    session: { executionProviders: ["wasm"] },
  });
  const { ort } = await runtime;
  return floats(await session.run(inputs(ort.Tensor, session)));
}

// Resolves after all earlier writes.
export const settle = listCached;
