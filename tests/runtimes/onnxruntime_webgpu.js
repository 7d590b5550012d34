// ONNX Runtime Web with its WebGPU execution provider, on the software adapter.
import { compareModel } from "./linear.js";

const { Failures } = await import("/files/common.js");

export async function hasAdapter() {
  const failures = new Failures();
  failures.same("an adapter", Boolean(await navigator.gpu?.requestAdapter()), true);
  return failures;
}

export const modelWithJspi = () => compareModel("ort.jspi.min.mjs", "webgpu");

export const modelWithWebGpuBuild = () => compareModel("ort.webgpu.min.mjs", "webgpu");
