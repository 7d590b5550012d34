// @ts-check
// Which bytes of a file were read.

/** Ranges that neither touch nor overlap, in ascending order. */
export class ByteRanges {
  /** @type {[start: number, end: number][]} */
  #ranges = [];
  /** The number of bytes in all ranges. */
  byteLength = 0;

  /**
   * Adds a range. Bytes that are added twice count once.
   *
   * @param {number} start
   * @param {number} end
   */
  add(start, end) {
    const [before, after] = [this.#ranges.filter((range) => range[1] < start), this.#ranges.filter(([at]) => at > end)];
    const touching = this.#ranges.slice(before.length, this.#ranges.length - after.length);
    const first = Math.min(start, ...touching.map(([at]) => at));
    const last = Math.max(end, ...touching.map((range) => range[1]));
    this.byteLength += last - first - touching.reduce((sum, range) => sum + range[1] - range[0], 0);
    this.#ranges = [...before, [first, last], ...after];
  }
}
