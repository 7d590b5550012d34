// @ts-check
// Reads the weights of the parts of the graph in the order in which they compute.

import { Arrival } from "./arrival.js";

/** @import { Graph } from "./runtime.js" */

/** @typedef {[start: number, end: number]} Range */

// Weights that are not in a session yet take up to this many bytes. A larger part is read alone.
const MAX_AHEAD_BYTES = 64 * 1024 * 1024;

export class PartReader {
  #file;
  /** The range of each part that has weights. @type {Range[]} */
  #ranges;
  /** The parts whose reading has begun. @type {(Arrival | undefined)[]} */
  #arrivals = [];
  #aheadBytes = 0;

  /**
   * Starts to read. The weights of a part follow each other in the file, so that a part takes few requests.
   *
   * @param {Blob} file
   * @param {Graph} graph
   */
  constructor(file, graph) {
    this.#file = file;
    this.#ranges = graph.parts.map(({ weights }) => rangeOf(Object.values(weights)));
    this.#readAhead();
  }

  /**
   * Takes the weights of a part, some of which may still be arriving.
   *
   * @param {number} number
   */
  take(number) {
    while (this.#arrivals.length <= number) this.#begin();
    const arrival = this.#arrivals[number];
    if (!arrival) throw new Error("the weights of each part are taken once");
    return arrival;
  }

  /**
   * Frees the weights of a part.
   *
   * @param {number} number
   */
  release(number) {
    this.#aheadBytes -= this.#arrivals[number]?.byteLength ?? 0;
    this.#arrivals[number] = undefined;
    this.#readAhead();
  }

  /** Begins to read the next part, after the one before it has arrived, and if there is memory for it. */
  #readAhead() {
    const next = this.#ranges[this.#arrivals.length];
    const last = this.#arrivals.at(-1);
    if (!next || (last && !last.isComplete)) return;
    const isTooFar = this.#aheadBytes + next[1] - next[0] > MAX_AHEAD_BYTES;
    if (this.#aheadBytes === 0 || !isTooFar) this.#begin();
  }

  #begin() {
    const [start, end] = this.#ranges[this.#arrivals.length];
    const arrival = new Arrival(this.#file, start, end);
    this.#arrivals.push(arrival);
    this.#aheadBytes += arrival.byteLength;
    arrival.completed.then(() => this.#readAhead(), () => {});
  }
}

/**
 * @param {Range[]} places
 * @returns {Range}
 */
const rangeOf = (places) => [Math.min(...places.map(([start]) => start)), Math.max(...places.map(([, end]) => end))];

/**
 * Checks that the file has the weights where the graph expects them. A model with the same tensors may have other
 * dtypes, or the same tensors in another order.
 *
 * @param {Blob} file A SafeTensors file.
 * @param {Graph} graph
 */
export async function checkPlaces(file, graph) {
  const length = Number(new DataView(await file.slice(0, 8).arrayBuffer()).getBigUint64(0, true));
  const header = JSON.parse(await file.slice(8, 8 + length).text());
  for (const [name, [start, end]] of graph.parts.flatMap(({ weights }) => Object.entries(weights))) {
    const { dtype, data_offsets: offsets = [] } = header[name] ?? {};
        const [from, to] = offsets.map((/** @type {number} */ offset) => 8 + length + offset);
    if (dtype === "F32" && from === start && to === end) continue;
    const found = dtype === undefined ? "the model has no such tensor" : `it is ${dtype} in the bytes ${from} to ${to}`;
    throw new Error(`The graph needs ${name} as F32 in the bytes ${start} to ${end}, but ${found}. ` +
      "It is made for the weights of the demo model.");
  }
}
