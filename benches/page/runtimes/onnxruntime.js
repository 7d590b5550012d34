// What apps with ONNX Runtime Web have in common.
import * as ort from "onnxruntime-web";
import { floats, inputs } from "./inputs.js";

export { ort };

ort.env.wasm.wasmPaths = "/npm/onnxruntime-web/dist/";
ort.env.wasm.numThreads = 1;

// Options of all sessions.
export const sessionOptions = { executionProviders: ["wasm"] };

export async function firstOutput(graph, options) {
  const session = await ort.InferenceSession.create(graph, { ...sessionOptions, ...options });
  return floats(await session.run(inputs(ort.Tensor, session)));
}
