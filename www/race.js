// @ts-check
// A race: weightstream and fetch() load the same tensors, each over a line that breaks once. fetch() loads the file
// that people have, weightstream what `weightstream publish` made of it.

import { byId, partOf } from "./elements.js";
import { bytes, duration } from "./format.js";
import { memoryOf } from "./memory.js";
import { NAMES, RaceChart } from "./race-chart.js";
import { DEMO } from "./sources.js";

/** @import { Report, Task, Way } from "./racer.js" */

/** The SafeTensors file, and the entry of the published model. @type {Record<Way, string>} */
const MODELS = { weightstream: DEMO, fetch: "models/all-MiniLM-L6-v2.safetensors" };
/** @type {Way[]} */
const WAYS = ["weightstream", "fetch"];
const BREAK_SHARE = 0.6;
/** A side below this share of the rate of its line was limited by the real connection. */
const NEARLY = 0.85;

/**
 * `size` is the number of bytes that it loads.
 *
 * @typedef {{ way: Way, worker: Worker, size: number, last?: Report }} Side
 */

export class Race {
  #chart = new RaceChart(byId("race-chart"));
  #showError;
  /** Ends the race that runs, and the workers, which hold the model until their memory is measured. */
  #controller = new AbortController();

  /** @param {(error: unknown, sentence?: string) => void} showError */
  constructor(showError) {
    this.#showError = showError;
    byId("race-start").addEventListener("click", () => this.#start());
    byId("race-stop").addEventListener("click", () => this.#controller.abort());
  }

  async #start() {
    this.#controller.abort();
    const controller = new AbortController();
    this.#controller = controller;
    const { signal } = controller;
    showRunning(true);
    for (const row of ["first", "whole", "received", "again", "memory"]) show(row, WAYS.map(() => "–"));
    showStatus("");
    try {
      const bytesPerSecond = Number(byId("race-rate", HTMLSelectElement).value) * 1e6;
      const sides = await this.#race(bytesPerSecond, signal);
      showRunning(false);
      showStatus(conclusion(sides, bytesPerSecond));
      show("memory", WAYS.map(() => "measuring…"));
      const memory = await memoryOf(WAYS.map(scriptOf));
      if (signal.aborted) return;
      show("memory", WAYS.map((_, index) => memory ? bytes(memory[index]) : "not available in this browser"));
    } catch (error) {
      if (controller !== this.#controller) return;
      showRunning(false);
      showStatus(signal.aborted ? "Stopped." : "");
      if (!signal.aborted) this.#showError(error, "The race was not finished.");
    } finally {
      controller.abort();
    }
  }

  /**
   * Resolves when both sides have the model.
   *
   * @param {number} bytesPerSecond
   * @param {AbortSignal} signal
   */
  async #race(bytesPerSecond, signal) {
    const sizes = await Promise.all([sizeOfEntry(MODELS.weightstream, signal), sizeOfFile(MODELS.fetch, signal)]);
    this.#chart.begin(WAYS, BREAK_SHARE, (Math.max(...sizes) * (1 + BREAK_SHARE)) / bytesPerSecond);
    const start = (/** @type {Way} */ way) => new Worker(scriptOf(way), { type: "module" });
    const sides = WAYS.map((way, index) => ({ way, worker: start(way), size: sizes[index] }));
    signal.addEventListener("abort", () => sides.forEach(({ worker }) => worker.terminate()));
    await Promise.all(sides.map((side) => this.#run(side, bytesPerSecond, signal)));
    return sides;
  }

  /**
   * @param {Side} side
   * @param {number} bytesPerSecond
   * @param {AbortSignal} signal
   */
  #run(side, bytesPerSecond, signal) {
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
      const url = new URL(MODELS[way], location.href).href;
      /** @type {Task} */
      const task = { way, url, bytesPerSecond, breaksAfter: Math.floor(size * BREAK_SHARE) };
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

/**
 * The script of a side, with a URL of its own, by which the browser attributes memory.
 *
 * @param {Way} way
 */
const scriptOf = (way) => new URL(`racer.js?way=${way}`, import.meta.url).href;

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

/**
 * @param {Side[]} sides
 * @param {number} bytesPerSecond
 */
function conclusion(sides, bytesPerSecond) {
  const [own, other] = sides.map(({ last }) => last?.ms ?? 0);
  const rates = sides.map(({ last }) => last ? (last.received / last.ms) * 1000 : 0);
  const isShared = bytesPerSecond !== Infinity && Math.min(...rates) < bytesPerSecond * NEARLY;
  const why = isShared ? " Both were slower than their limit: they shared the connection and the processor." : "";
  const [fewer, more] = sides.map(({ last }) => bytes(last?.received ?? 0));
  const times = (other / own).toFixed(1);
  const received = `received ${more} instead of ${fewer}`;
  return `fetch() started over after the cut, ${received}, and took ${times} times as long.${why}`;
}

/** @param {boolean} isRunning */
function showRunning(isRunning) {
  const [shown, gone] = isRunning ? [byId("race-stop"), byId("race-start")] : [byId("race-start"), byId("race-stop")];
  const hadFocus = document.activeElement === gone;
  shown.hidden = false;
  gone.hidden = true;
  if (hadFocus) shown.focus({ preventScroll: true });
  byId("race-rate", HTMLSelectElement).disabled = isRunning;
}

/**
 * @param {string} row
 * @param {string[]} texts
 */
function show(row, texts) {
  WAYS.forEach((way, index) => showCell(row, way, texts[index]));
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
