// @ts-check
// Where the pieces of a file are, and when they are the whole file.
import { pieceOf } from "./keys.js";

/** @import { Description } from "./keys.js" */

/**
 * Where a piece is: in which file of the folder, and at which position.
 *
 * @typedef {{ file: string, at: number, byteLength: number }} Place
 */

/**
 * Parts of segments that are a whole file, in its order.
 *
 * @typedef {{ file: string, start: number, end: number }[]} Run
 */

export class Places {
  /** @type {Map<string, Place>} By the keys of the pieces. */
  #places = new Map();

  /** @param {string} rest */
  get(rest) {
    return this.#places.get(rest);
  }

  /**
   * @param {string} rest
   * @param {Place} place
   */
  set(rest, { file, at, byteLength }) {
    this.#places.set(rest, { file, at, byteLength });
  }

  /** @param {string} rest */
  delete(rest) {
    this.#places.delete(rest);
  }

  /** @param {string} [name] Of a file that is gone. Default: all. */
  forget(name) {
    for (const [rest, { file }] of this.#places) if (name === undefined || file === name) this.#places.delete(rest);
  }

  /**
   * Whether a piece is in a file.
   *
   * @param {string} name
   */
  use(name) {
    return Array.from(this.#places.values()).some(({ file }) => file === name);
  }

  keys() {
    return Array.from(this.#places.keys());
  }

  get byteLength() {
    return Array.from(this.#places.values()).reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** @param {string} generation Of a version of the file. */
  keysOf(generation) {
    return this.keys().filter((rest) => pieceOf(rest)?.generation === generation);
  }

  /**
   * The parts of pieces that make up a version of the file. Undefined if it is not complete.
   *
   * @param {Description} described
   * @param {string | undefined} unfinished A segment that cannot be read yet.
   * @returns {Run | undefined}
   */
  completeRun({ generation, byteLength }, unfinished) {
    if (!byteLength) return undefined;
    const pieces = Array.from(this.#places).flatMap(([rest, { file, at }]) => {
      const piece = pieceOf(rest);
      return piece?.generation === generation && file !== unfinished ? [{ file, at, ...piece }] : [];
    });
    pieces.sort((one, other) => one.start - other.start);
    const run = [];
    let done = 0;
    for (const { file, at, start, end } of pieces) {
      if (start > done) return undefined;
      const until = Math.min(end, byteLength);
      if (until > done) run.push({ file, start: at + done - start, end: at + until - start });
      done = Math.max(done, until);
    }
    return done === byteLength ? run : undefined;
  }
}
