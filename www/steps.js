// @ts-check
// A table of the steps on the way to the first embedding: what each layer waited for, with a bar on a common time axis.

import { element, partOf } from "./elements.js";
import { bytes, duration } from "./format.js";
import { timeLabels } from "./scale.js";

/** @import { Interval } from "./arrival.js" */
/** @import { Step } from "./embedder.js" */

/** @typedef {"waited" | "prepared" | "computed"} Kind */

/**
 * @param {HTMLTableElement} table
 * @param {Step[]} steps
 * @param {number} milliseconds The end of the time axis.
 */
export function showSteps(table, steps, milliseconds) {
  partOf(table, "thead .times").replaceChildren(...timeLabels("span", milliseconds / 1000));
  partOf(table, "tbody", HTMLTableSectionElement).replaceChildren(...steps.map((step) => row(step, milliseconds)));
}

/**
 * How long the steps took in total, in milliseconds. Steps that overlap with others do not count.
 *
 * @param {Step[]} steps
 * @returns {Record<Kind, number>}
 */
export function totals(steps) {
  const layers = steps.filter(({ byteLength }) => byteLength > 0).map(timesOf);
  const sum = (/** @type {Kind} */ kind) => layers.reduce((total, times) => total + times[kind], 0);
  return { waited: sum("waited"), prepared: sum("prepared"), computed: sum("computed") };
}

/**
 * @param {Step} step
 * @returns {Record<Kind, number>}
 */
function timesOf({ begun, waits, prepared, ended }) {
  const waited = waits.reduce((sum, [from, to]) => sum + to - from, 0);
  return { waited, prepared: Math.max(0, prepared - begun - waited), computed: ended - prepared };
}

/**
 * @param {Step} step
 * @param {number} milliseconds
 */
function row(step, milliseconds) {
  const { name, byteLength, reading, begun, waits, prepared, ended } = step;
  const times = timesOf(step);
  const bar = element("div", { class: "bar" });
  const draw = (/** @type {string} */ kind, /** @type {Interval[]} */ ...intervals) => {
    for (const [from, to] of intervals.filter(([from, to]) => to > from)) {
      const piece = element("span", { class: kind });
      piece.style.left = `${(from / milliseconds) * 100}%`;
      piece.style.width = `${((to - from) / milliseconds) * 100}%`;
      bar.append(piece);
    }
  };
  draw("prepared", [begun, prepared]);
  draw("waited", ...waits);
  draw("computed", [prepared, ended]);
  if (reading) draw("arrived", reading);
  const time = (/** @type {Kind} */ kind) => element("td", { role: "cell" }, shown(times[kind]));
  return element("tr", { role: "row" },
    element("th", { scope: "row", role: "rowheader" }, name),
    element("td", { class: "axis-cell", "aria-hidden": "true" }, bar),
    element("td", { class: "weights", role: "cell" }, byteLength > 0 ? bytes(byteLength) : "–"),
    time("waited"), time("prepared"), time("computed"));
}

/** @param {number} milliseconds */
const shown = (milliseconds) => (milliseconds < 0.05 ? "–" : duration(milliseconds / 1000));
