// @ts-check
// The progress bar with its rate and remaining time, and the figures below the chart.

import { byId, element, terms } from "./elements.js";
import { bytes, duration, integer, roughly } from "./format.js";

/** @import { Origin } from "./cached.js" */
/** @import { LoadProgress, LoaderStats } from "./pkg/weightstream.js" */
/** @import { LoadOutcome } from "./load.js" */

/** @type {Record<string, string>} */
const ORIGINS = { network: "from the network", cache: "from the cache", both: "from both", files: "from files" };

const bar = byId("progress", HTMLProgressElement);

/** Shows an empty bar when a load starts. */
export function beginProgress() {
  byId("progress-row").hidden = false;
  bar.removeAttribute("data-end");
  bar.value = 0;
  byId("loaded").textContent = "Waiting for the first bytes";
  byId("rate").textContent = "";
  byId("time-left").textContent = "";
}

/** @param {LoadProgress} progress */
export function showProgress({ loaded, total, bytesPerSecond, secondsLeft }) {
  bar.max = Math.max(total, 1);
  bar.value = loaded;
  byId("loaded").textContent = `${bytes(loaded)} of ${bytes(total)}`;
  byId("rate").textContent = bytesPerSecond > 0 ? `${bytes(bytesPerSecond)}/s` : "";
  byId("time-left").textContent = secondsLeft === undefined ? "" : `${roughly(secondsLeft)} left`;
}

/**
 * Shows how a load ended. The bar stays where it is.
 *
 * @param {"done" | "stopped" | "failed"} how
 * @param {LoadOutcome} outcome
 */
export function endProgress(how, { seconds }) {
  bar.dataset.end = how;
  if (how === "done") bar.value = bar.max;
  byId("rate").textContent = how === "done" && seconds > 0 ? `${bytes(bar.max / seconds)}/s` : "";
  byId("time-left").textContent = { done: duration(seconds), stopped: "stopped", failed: "failed" }[how];
}

export function hideProgress() {
  byId("progress-row").hidden = true;
}

/**
 * Shows the counters since the model was opened, and the time and throughput of the last load of the whole model.
 *
 * @param {LoaderStats} stats
 * @param {LoadOutcome} [load]
 * @param {Partial<Record<Origin, number>>} [seconds] How long the last load from each origin took.
 */
export function showFigures(stats, load, seconds = {}) {
  const others = Object.entries(seconds).filter(([, time]) => time !== load?.seconds);
  const notes = others.map(([origin, time]) => element("small", {}, `${duration(time)} ${ORIGINS[origin]}`));

  byId("figures").replaceChildren(...terms([
    ["Load time", element("span", {}, load ? duration(load.seconds) : "–", ...load ? notes : [])],
    ["Throughput", load && load.seconds > 0 ? `${bytes(load.byteLength / load.seconds)}/s` : "–"],
    ["Requests", integer(stats.requests)],
    ["From the network", bytes(stats.bytesReceived)],
    ["From the cache", bytes(stats.bytesFromCache)],
    // This memory never shrinks.
    ["Peak WebAssembly memory", bytes(stats.wasmMemoryBytes)],
  ]));
}
