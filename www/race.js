// @ts-check
// A race: weightstream and fetch() load the same file, each over a line that breaks once.

import { byId, partOf } from "./elements.js";
import { bytes, duration } from "./format.js";
import { memoryOf } from "./memory.js";
import { NAMES, RaceChart } from "./race-chart.js";

/** @import { Report, Task, Way } from "./racer.js" */

const MODEL = "models/all-MiniLM-L6-v2.safetensors";
/** @type {Way[]} */
const WAYS = ["weightstream", "fetch"];
const BREAK_SHARE = 0.6;
/** A side below this share of the rate of its line was limited by the real connection. */
const NEARLY = 0.85;

/** @typedef {{ way: Way, worker: Worker, last?: Report }} Side */

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
    const url = new URL(MODEL, location.href).href;
    const size = await sizeOf(url, signal);
    this.#chart.begin(WAYS, BREAK_SHARE, (size * (1 + BREAK_SHARE)) / bytesPerSecond);
    const sides = WAYS.map((way) => ({ way, worker: new Worker(scriptOf(way), { type: "module" }) }));
    signal.addEventListener("abort", () => sides.forEach(({ worker }) => worker.terminate()));
    const task = { url, bytesPerSecond, breaksAfter: Math.floor(size * BREAK_SHARE) };
    await Promise.all(sides.map((side) => this.#run(side, task, size, signal)));
    return sides;
  }

  /**
   * @param {Side} side
   * @param {Omit<Task, "way">} task
   * @param {number} size
   * @param {AbortSignal} signal
   */
  #run(side, task, size, signal) {
    return new Promise((resolve, reject) => {
      const { way, worker } = side;
      signal.addEventListener("abort", () => reject(signal.reason));
      worker.addEventListener("error", (event) => reject(new Error(event.message || "A worker could not start.")));
      worker.addEventListener("message", (/** @type {MessageEvent<Report>} */ { data }) => {
        side.last = data;
        if (data.event === "failed") return reject(new Error(`${NAMES[way]}: ${data.error}`));
        this.#show(way, data, size);
        return data.event === "done" && resolve(undefined);
      });
      worker.postMessage({ way, ...task });
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
async function sizeOf(url, signal) {
  const response = await fetch(url, { method: "HEAD", cache: "no-store", signal }).catch((error) => {
    throw signal.aborted ? error : new Error(`The server does not respond to the request for ${MODEL}.`);
  });
  const size = Number(response.headers.get("content-length"));
  if (!response.ok || size === 0) throw new Error(`The server has no ${MODEL} (status ${response.status}).`);
  return size;
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
  return `fetch() started over after the cut and took ${(other / own).toFixed(1)} times as long.${why}`;
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
