// @ts-check
// Which ranges of a file are read ahead, and in which order.

/** @typedef {[start: number, end: number]} Range The bytes `[start, end)`. */

/** Ranges up to this length, such as biases, are read with their neighbours: a request takes longer than they do. */
const SMALL_BYTES = 64 * 1024;

/** The maximum length of small ranges that are read together. */
const TOGETHER_BYTES = 1024 * 1024;

/**
 * The ranges of the tensors of a SafeTensors file of this length, in which they follow each other up to its end.
 *
 * @param {readonly { byteLength: number | undefined }[]} tensors
 * @param {number} byteLength
 * @returns {Range[]}
 */
export function tensorRanges(tensors, byteLength) {
  const lengths = tensors.map((tensor) => tensor.byteLength ?? 0); // a tensor in a SafeTensors file has a length
  let end = byteLength - lengths.reduce((sum, length) => sum + length, 0);
  return lengths.map((length) => [end, (end += length)]);
}

/**
 * Joins small ranges with small neighbours that touch them. What is joined takes the place of the first of them. Empty
 * ranges are left out, and a range ends where another one begins.
 *
 * @param {readonly Range[]} ranges In the order in which they are needed.
 * @returns {Range[]}
 */
export function joined(ranges) {
  const places = ranges.map((range, place) => ({ range, place })).filter(({ range }) => range[0] < range[1]);
  places.sort((a, b) => a.range[0] - b.range[0] || a.range[1] - b.range[1]);
  /** @type {{ range: Range, place: number, isSmall: boolean }[]} */
  const groups = [];
  for (const [at, { range: [start, wholeEnd], place }] of places.entries()) {
    const last = groups[groups.length - 1];
    const next = places[at + 1];
    const end = Math.min(wholeEnd, next?.range[0] ?? Infinity);
    if (next && end <= start) next.place = Math.min(next.place, place); // it begins at the same byte
    if (end <= start) continue;
    const isSmall = end - start <= SMALL_BYTES;
    if (last?.isSmall && isSmall && last.range[1] === start && end - last.range[0] <= TOGETHER_BYTES) {
      last.range[1] = end;
      last.place = Math.min(last.place, place);
    } else {
      groups.push({ range: [start, end], place, isSmall });
    }
  }
  return groups.sort((a, b) => a.place - b.place).map(({ range }) => range);
}
