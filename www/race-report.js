// @ts-check
// What a race has shown, in words.

import { bytes } from "./format.js";

/** @import { Report, Way } from "./racer.js" */

/**
 * A side of the race. `size` is the number of bytes that it loads.
 *
 * @typedef {{ way: Way, worker: Worker, url: string, size: number, last?: Report }} Side
 */

/**
 * The limit of each side, and the share of its bytes after which its connection is cut; `undefined` without a cut.
 *
 * @typedef {{ bytesPerSecond: number, cutShare: number | undefined }} Conditions
 */

/** A side below this share of the rate of its line was limited by the real connection. */
const NEARLY = 0.85;
/** Times whose ratio is closer to 1 are called equal. */
const EQUAL = 1.05;
/** A side that received more than this multiple of its size has started over. */
const ONCE = 1.05;

/**
 * @param {Side[]} sides weightstream, then fetch().
 * @param {Conditions} conditions
 */
export function conclusion(sides, { bytesPerSecond, cutShare }) {
  const [fewer, more] = sides.map(({ last }) => bytes(last?.received ?? 0));
  const both = `${timesText(sides)}${whySlow(sides, bytesPerSecond)}`;
  if (cutShare === undefined) return `weightstream received ${fewer} instead of ${more}. ${both}`;
  const [own] = sides;
  if ((own.last?.received ?? 0) > own.size * ONCE) {
    return `Both started over after the cut, because this server ignores Range requests. ${both}`;
  }
  return `fetch() started over after the cut, and received ${more} instead of ${fewer}. ${both}`;
}

/**
 * `fetch() took 1.2 times as long.`
 *
 * @param {Side[]} sides
 */
function timesText(sides) {
  const [own, other] = sides.map(({ last }) => last?.ms ?? 0);
  if (Math.max(own, other) < Math.min(own, other) * EQUAL) return "Both took the same time.";
  const [slower, ratio] = other > own ? ["fetch()", other / own] : ["weightstream", own / other];
  return `${slower} took ${ratio.toFixed(1)} times as long.`;
}

/**
 * @param {Side[]} sides
 * @param {number} bytesPerSecond
 */
function whySlow(sides, bytesPerSecond) {
  const rates = sides.map(({ last }) => last ? (last.received / last.ms) * 1000 : 0);
  if (bytesPerSecond === Infinity || Math.min(...rates) >= bytesPerSecond * NEARLY) return "";
  return " Both were slower than their limit: they shared the connection and the processor.";
}
