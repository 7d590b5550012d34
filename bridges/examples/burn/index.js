// @ts-check
// Loads the weights at `?weights=`, and computes the outputs for the input 0, 0.1, 0.2 …
import init, { Model } from "./pkg/burn_example.js";

const INPUTS = 16;

const weights = new URLSearchParams(location.search).get("weights") ?? "mlp.bpk";
const status = /** @type {HTMLElement} */ (document.querySelector("#status"));

try {
  await init();
  const model = await Model.open(new URL(weights, location.href).href);
  const outputs = model.compute(Float32Array.from({ length: INPUTS }, (_, at) => Math.fround(at) / 10));
  status.textContent = `Outputs: ${[...outputs].join(", ")}`;
} catch (error) {
  status.textContent = `Error: ${error instanceof Error ? error.message : error}`;
}
