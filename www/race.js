// @ts-check
// A race: weightstream and fetch() load the same tensors, each over a line of its own, which may break once. fetch()
// loads the file that people have, weightstream what `weightstream publish` made of it.

import { byId, partOf } from "./elements.js";
import { bytes, duration } from "./format.js";
import { NAMES, RaceChart } from "./race-chart.js";
import { conclusion } from "./race-report.js";
import { site } from "./site.js";

/** @import { Report, Task, Way } from "./racer.js" */
/** @import { Conditions, Side } from "./race-report.js" */

/** @type {Way[]} */
const WAYS = ["weightstream", "fetch"];

export class Race {
  #chart = new RaceChart(byId("race-chart"));
  #showError;
  /** Ends the race that runs, and its workers. */
  #controller = new AbortController();

  /** @param {(error: unknown, sentence?: string) => void} showError */
  constructor(showError) {
    this.#showError = showError;
    byId("race-start").addEventListener("click", () => this.#start());
    byId("race-stop").addEventListener("click", () => this.#controller.abort());
    byId("race-cut").addEventListener("change", () => this.#showConditions());
    this.#showConditions();
  }

  async #start() {
    this.#controller.abort();
    const controller = new AbortController();
    this.#controller = controller;
    const { signal } = controller;
    showRunning(true);
    for (const row of ["first", "whole", "received", "again"]) WAYS.forEach((way) => showCell(row, way, "–"));
    showStatus("");
    try {
      const conditions = chosenConditions();
      const sides = await this.#race(conditions, signal);
      showRunning(false);
      showStatus(conclusion(sides, conditions));
    } catch (error) {
      if (controller !== this.#controller) return;
      showRunning(false);
      showStatus(signal.aborted ? "Stopped." : "");
      if (!signal.aborted) this.#showError(error, "The race was not finished.");
    } finally {
      controller.abort();
    }
  }

  /** Shows what does not depend on the results: whether the connections will be cut, and an empty chart. */
  #showConditions() {
    const { cutShare } = chosenConditions();
    byId("race-again").hidden = cutShare === undefined;
    this.#chart.begin([], cutShare);
  }

  /**
   * Resolves when both sides have the model.
   *
   * @param {Conditions} conditions
   * @param {AbortSignal} signal
   */
  async #race(conditions, signal) {
    const { cutShare = 0, bytesPerSecond } = conditions;
    const { model, original } = await site;
    const sizes = await Promise.all([sizeOfEntry(model, signal), sizeOfFile(original, signal)]);
    this.#chart.begin(WAYS, conditions.cutShare, (Math.max(...sizes) * (1 + cutShare)) / bytesPerSecond);
    const start = () => new Worker(new URL("racer.js", import.meta.url), { type: "module" });
    const urls = [model, original];
    const sides = WAYS.map((way, index) => ({ way, worker: start(), url: urls[index], size: sizes[index] }));
    signal.addEventListener("abort", () => sides.forEach(({ worker }) => worker.terminate()));
    await Promise.all(sides.map((side) => this.#run(side, conditions, signal)));
    return sides;
  }

  /**
   * @param {Side} side
   * @param {Conditions} conditions
   * @param {AbortSignal} signal
   */
  #run(side, { bytesPerSecond, cutShare }, signal) {
    return new Promise((resolve, reject) => {
      const { way, worker, size } = side;
      signal.addEventListener("abort", () => reject(signal.reason));
      worker.addEventListener("error", (event) => reject(new Error(event.message || "A worker could not start.")));
      worker.addEventListener("message", (/** @type {MessageEvent<Report>} */ { data }) => {
        side.last = data;
        if (data.event === "failed") return reject(new Error(`${NAMES[way]}: ${data.error}`));
        this.#show(way, data, size);
        return data.event === "done" && resolve(undefined);
      });
      const url = new URL(side.url, location.href).href;
      /** @type {Task} */
      const task = { way, url, bytesPerSecond, breaksAfter: cutShare && Math.floor(size * cutShare) };
      worker.postMessage(task);
    });
  }

  /**
   * @param {Way} way
   * @param {Report} report
   * @param {number} size
   */
  #show(way, { ms, held, received, event }, size) {
    const seconds = ms / 1000;
    const ends = event === "done";
    this.#chart.add(way, [seconds, ends ? 1 : Math.min(held / size, 1)], { restarts: event === "restarted", ends });
    showCell("whole", way, duration(seconds));
    showCell("received", way, bytes(received));
    if (event === "first") showCell("first", way, duration(seconds));
    if (ends) showCell("again", way, bytes(Math.max(0, received - size)));
  }
}

/** @returns {Conditions} */
function chosenConditions() {
  const [rate, cut] = ["race-rate", "race-cut"].map((id) => byId(id, HTMLSelectElement).value);
  return { bytesPerSecond: Number(rate) * 1e6, cutShare: cut === "" ? undefined : Number(cut) };
}

/**
 * @param {string} url
 * @param {AbortSignal} signal
 */
async function sizeOfFile(url, signal) {
  const response = await ask(url, { method: "HEAD", signal });
  const size = Number(response.headers.get("content-length"));
  if (size === 0) throw new Error(`The server does not state the size of ${url}.`);
  return size;
}

/**
 * The size of all files of a published model.
 *
 * @param {string} url
 * @param {AbortSignal} signal
 */
async function sizeOfEntry(url, signal) {
  const { weightstream } = await (await ask(url, { signal })).json();
  /** @type {{ size: number }[]} */
  const files = Object.values(weightstream.files);
  return files.reduce((sum, { size }) => sum + size, 0);
}

/**
 * @param {string} url
 * @param {RequestInit & { signal: AbortSignal }} init
 */
async function ask(url, init) {
  const response = await fetch(url, { cache: "no-store", ...init }).catch((error) => {
    throw init.signal.aborted ? error : new Error(`The server does not respond to the request for ${url}.`);
  });
  if (!response.ok) throw new Error(`The server has no ${url} (status ${response.status}).`);
  return response;
}

/** @param {boolean} isRunning */
function showRunning(isRunning) {
  const [shown, gone] = isRunning ? [byId("race-stop"), byId("race-start")] : [byId("race-start"), byId("race-stop")];
  const hadFocus = document.activeElement === gone;
  shown.hidden = false;
  gone.hidden = true;
  if (hadFocus) shown.focus({ preventScroll: true });
  for (const id of ["race-rate", "race-cut"]) byId(id, HTMLSelectElement).disabled = isRunning;
}

/**
 * @param {string} row
 * @param {Way} way
 * @param {string} text
 */
function showCell(row, way, text) {
  partOf(byId(`race-${row}`), `td:nth-of-type(${WAYS.indexOf(way) + 1})`).textContent = text;
}

/** @param {string} sentence */
function showStatus(sentence) {
  byId("race-status").textContent = sentence;
}
