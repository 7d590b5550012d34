// @ts-check
// A worker that loads a file in one of two ways and reports how far it is. Each way has a worker of its own, so that
// neither waits for the other.

import { StreamingLoader } from "./pkg/weightstream.js";
import { Line } from "./line.js";

/** @typedef {"weightstream" | "fetch"} Way */

/** @typedef {{ way: Way, url: string } & import("./line.js").Conditions} Task */

/**
 * What a worker posts.
 *
 * @typedef {object} Report
 * @property {number} ms The time since the start.
 * @property {number} held The bytes that have arrived and need not be requested again.
 * @property {number} received All bytes that have arrived.
 * @property {"broken" | "restarted" | "first" | "done" | "failed"} [event]
 * @property {string} [error]
 */

const REPORT_MS = 50;
const MAX_ATTEMPTS = 5;

/** The model, which an app keeps. @type {unknown[]} */
const tensors = [];

class Racer {
  /** The number of bytes that have arrived and need not be requested again. */
  held = () => 0;
  #startedAt = performance.now();
  /** @type {number | undefined} */
  #endedAt;
  #line;

  /** @param {Task} task */
  constructor(task) {
    this.#line = new Line(task, () => this.report("broken"));
  }

  /**
   * @param {Report["event"]} [event]
   * @param {unknown} [error]
   */
  report(event, error) {
    const ms = (this.#endedAt ?? performance.now()) - this.#startedAt;
    postMessage({ ms, held: this.held(), received: this.#line.received, event, error: error && String(error) });
  }

  /** @param {string} url */
  async fetch(url) {
    const file = await this.#wholeFile(url);
    const length = Number(new DataView(file).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length)));
    for (const [name, { data_offsets: place }] of Object.entries(header)) {
      if (name !== "__metadata__") tensors.push(new Uint8Array(file, 8 + length + place[0], place[1] - place[0]));
    }
    this.#endedAt = performance.now(); // the first tensor and the last one come at the same time
    this.report("first");
  }

  /**
   * Requests the file again if the connection is lost.
   *
   * @param {string} url
   */
  async #wholeFile(url) {
    for (let attempt = 1; ; attempt++) {
      const before = this.#line.received;
      this.held = () => this.#line.received - before;
      try {
        return await (await this.#line.fetch(url)).arrayBuffer();
      } catch (error) {
        if (attempt === MAX_ATTEMPTS) throw error;
      }
      this.held = () => 0;
      this.report("restarted");
    }
  }

  /** @param {string} url */
  async weightstream(url) {
    let loaded = 0;
    this.held = () => loaded;
    const loader = await StreamingLoader.open(url, {
      fetch: this.#line.fetch,
      cache: "none",
      onProgress: (event) => (loaded = event.loaded),
    });
    for await (const tensor of loader.tensors()) {
      if (tensors.push(tensor) === 1) this.report("first");
    }
  }
}

addEventListener("message", async ({ data }) => {
  const racer = new Racer(data);
  const timer = setInterval(() => racer.report(), REPORT_MS);
  try {
    await racer[/** @type {Task} */ (data).way](data.url);
    racer.report("done");
  } catch (error) {
    racer.report("failed", error);
  } finally {
    clearInterval(timer);
  }
}, { once: true });
