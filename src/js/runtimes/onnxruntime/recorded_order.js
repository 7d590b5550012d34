// @ts-check
// The order in which ONNX Runtime asks for the tensors of a graph. It is neither that of the graph nor that of the
// file, but the same in each visit, so it is recorded in the first one.
import { answered } from "../../cache/storage.js";
import { ORDERS } from "../../cache/orders.js";

/** @import { Range } from "./ranges.js" */

/** Only http(s) URLs can be keys. This host never exists. */
const PREFIX = "https://weightstream.invalid/onnxruntime/";

export class RecordedOrder {
  #key;
  #expected;
  #isRecorded;
  /** @type {Map<number, number>} The ends of the ranges that were asked for, by their starts. */
  #asked = new Map();

  /**
   * @param {Request | undefined} key
   * @param {Range[]} expected
   * @param {boolean} [isRecorded]
   */
  constructor(key, expected, isRecorded = false) {
    this.#key = key;
    this.#expected = expected;
    this.#isRecorded = isRecorded;
  }

  /**
   * The order of the last visit, or that of the file. A wrong order costs time, but no bytes, so the key need not tell
   * graphs and versions of ONNX Runtime apart.
   *
   * @param {string} path
   * @param {number} byteLength
   * @param {Range[]} inFile
   */
  static async open(path, byteLength, inFile) {
    try {
      const text = new TextEncoder().encode(JSON.stringify([path, byteLength, inFile]));
      const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", text));
      const key = new Request(`${PREFIX}${[...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`);
      const found = async () => (await (await caches.open(ORDERS)).match(key))?.json();
      const ranges = rangesOf(await answered(found()), byteLength);
      return new RecordedOrder(key, ranges ?? inFile, ranges !== undefined);
    } catch {
      return new RecordedOrder(undefined, inFile); // this platform has no Cache API, or it fails
    }
  }

  /** The ranges that will be asked for, in this order. */
  get ranges() {
    return this.#expected;
  }

  /**
   * @param {number} start
   * @param {number} end
   */
  add(start, end) {
    if (end > start && (this.#asked.get(start) ?? 0) < end) this.#asked.set(start, end);
  }

  /** Stores the order for the next visit, unless it is known, or the session read less than the last one. */
  async save() {
    const asked = [...this.#asked];
    const isKnown = JSON.stringify(asked) === JSON.stringify(this.#expected);
    const isPart = this.#isRecorded && byteLengthOf(asked) < byteLengthOf(this.#expected);
    if (!this.#key || asked.length === 0 || isKnown || isPart) return;
    try {
      const cache = await caches.open(ORDERS);
      await cache.put(this.#key, new Response(JSON.stringify(asked)));
    } catch {
      // The next visit reads in the order of the file.
    }
  }
}

/** @param {Range[]} ranges */
const byteLengthOf = (ranges) => ranges.reduce((sum, [start, end]) => sum + end - start, 0);

/**
 * @param {any} stored
 * @param {number} byteLength
 * @returns {Range[] | undefined}
 */
function rangesOf(stored, byteLength) {
  const isRange = (/** @type {any} */ range) =>
    Array.isArray(range) && range.length === 2 && range.every(Number.isSafeInteger) &&
    range[0] >= 0 && range[0] <= range[1] && range[1] <= byteLength;
  return Array.isArray(stored) && stored.every(isRange) ? stored : undefined;
}
