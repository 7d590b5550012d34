// @ts-check
// The histogram of a tensor, as SVG. The style sheet sets its colours.

import { integer, value } from "./format.js";

/** @import { Histogram } from "./statistics.js" */

const WIDTH = 320;
const HEIGHT = 96;
const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {SVGElement} svg
 * @param {{ histogram: Histogram, mean: number }} statistics
 */
export function drawHistogram(svg, { histogram, mean }) {
  const { from, to, bins } = histogram;
  const tallest = Math.max(1, ...bins);
  const binWidth = WIDTH / bins.length;
  const gap = Math.min(1, binWidth * 0.2);
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const summary = `most values near ${value(modeOf(histogram))}, mean ${value(mean)}`;
  svg.setAttribute("aria-label", `Histogram from ${value(from)} to ${value(to)}; ${summary}.`);
  svg.replaceChildren(...bins.map((count, bin) => {
    // A bin with few values stays visible.
    const height = count === 0 ? 0 : Math.max(1, (count / tallest) * HEIGHT);
    const bar = shape("rect", { x: bin * binWidth + gap / 2, y: HEIGHT - height, width: binWidth - gap, height });
    const low = from + ((to - from) * bin) / bins.length;
    const high = from + ((to - from) * (bin + 1)) / bins.length;
    const title = shape("title", {});
    title.textContent = `${value(low)} to ${value(high)}: ${integer(count)}`;
    bar.append(title);
    return bar;
  }));
  const at = ((mean - from) / (to - from)) * WIDTH;
  svg.append(shape("line", { class: "mean", x1: at, x2: at, y1: 0, y2: HEIGHT }));
}

/**
 * The middle of the bin with the most values.
 *
 * @param {Histogram} histogram
 */
function modeOf({ from, to, bins }) {
  return from + ((to - from) * (bins.indexOf(Math.max(...bins)) + 0.5)) / bins.length;
}

/**
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 */
function shape(tag, attributes) {
  const created = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) created.setAttribute(name, String(value));
  return created;
}
