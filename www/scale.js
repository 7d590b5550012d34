// @ts-check
// Round numbers for axes.

import { element } from "./elements.js";

const TIME_STEPS = 5;
// A label further right would leave the axis.
const LAST_LABEL = 0.96;

/**
 * 1, 2 or 5 times a power of ten, at least this.
 *
 * @param {number} least
 */
export function niceStep(least) {
  const unit = 10 ** Math.floor(Math.log10(least));
  return unit * ([1, 2, 5].find((factor) => unit * factor >= least) ?? 10);
}

/**
 * The length of the time axis of a load that runs: the next round number of seconds, so that it grows in few steps.
 *
 * @param {number} elapsed
 */
export function niceSeconds(elapsed) {
  let unit = 0.25;
  for (;;) {
    for (const factor of [1, 2, 4]) if (elapsed < unit * factor) return unit * factor;
    unit *= 10;
  }
}

/**
 * The labels of a time axis, each at its place.
 *
 * @param {"li" | "span"} tag
 * @param {number} seconds The length of the axis.
 */
export function timeLabels(tag, seconds) {
  const step = niceStep(seconds / TIME_STEPS);
  const labels = [];
  for (let index = 0; index * step <= seconds * LAST_LABEL; index++) {
    labels.push(element(tag, { style: `left: ${((index * step) / seconds) * 100}%` }, timeText(index * step)));
  }
  return labels;
}

/** @param {number} seconds */
function timeText(seconds) {
  if (seconds === 0) return "0";
  const [number, unit] = seconds < 1 ? [seconds * 1000, "ms"] : [seconds, "s"];
  return `${Number(number.toPrecision(3))}\u00a0${unit}`;
}

/**
 * The times of these labels, in seconds.
 *
 * @param {number} seconds
 */
export function timeSteps(seconds) {
  const step = niceStep(seconds / TIME_STEPS);
  return Array.from({ length: Math.floor(seconds / step) }, (_, index) => (index + 1) * step);
}
