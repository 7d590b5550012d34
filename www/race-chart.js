// @ts-check
// The chart of the race: time from left to right, the share of the model that each side has from bottom to top.

import { element, partOf } from "./elements.js";
import { duration } from "./format.js";
import { niceSeconds, timeLabels, timeSteps } from "./scale.js";

/** @import { Way } from "./racer.js" */

/** A place on a line: seconds, and the share of the model. @typedef {[seconds: number, share: number]} Point */

/** The lines of one side: each attempt begins a new one. @typedef {{ attempts: Point[][], end?: number }} Track */

const COLOURS = { weightstream: "c0", fetch: "c1" };
export const NAMES = { weightstream: "weightstream", fetch: "fetch()" };

// The axis before the first race.
const SECONDS_BEFORE = 7;
// The axis of a race that has ended, relative to its time: the label of the end needs some space.
const MARGIN = 1.12;

export class RaceChart {
  #figure;
  #breakShare = 0;
  #leastSeconds = 0;
  /** @type {Map<Way, Track>} */
  #tracks = new Map();
  #frame = 0;

  /** @param {HTMLElement} figure */
  constructor(figure) {
    this.#figure = figure;
    this.begin([], 0.6, SECONDS_BEFORE);
  }

  /**
   * Clears the chart.
   *
   * @param {Way[]} ways
   * @param {number} breakShare The share of the model after which the lines break.
   * @param {number} seconds How long the race takes at least.
   */
  begin(ways, breakShare, seconds) {
    this.#tracks = new Map(ways.map((way) => [way, { attempts: [[[0, 0]]] }]));
    this.#breakShare = breakShare;
    this.#leastSeconds = seconds;
    this.#redrawSoon();
  }

  /**
   * @param {Way} way
   * @param {Point} point
   * @param {{ restarts?: boolean, ends?: boolean }} [what]
   */
  add(way, point, { restarts = false, ends = false } = {}) {
    const track = this.#tracks.get(way);
    if (!track) return;
    if (restarts) track.attempts.push([]);
    track.attempts.at(-1)?.push(point);
    if (ends) track.end = point[0];
    this.#redrawSoon();
  }

  #redrawSoon() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#redraw();
    });
  }

  #redraw() {
    const tracks = [...this.#tracks];
    const points = tracks.flatMap(([, { attempts }]) => attempts.flat());
    const elapsed = Math.max(0, ...points.map(([time]) => time));
    const hasEnded = tracks.length > 0 && tracks.every(([, { end }]) => end !== undefined);
    const seconds = hasEnded ? elapsed * MARGIN : niceSeconds(Math.max(this.#leastSeconds, elapsed));
    const x = (/** @type {number} */ time) => (time / seconds) * 100;
    const place = (/** @type {Point} */ [time, share]) => `${x(time).toFixed(3)} ${((1 - share) * 100).toFixed(3)}`;
    const breakAt = (1 - this.#breakShare) * 100;
    const lines = tracks.flatMap(([way, { attempts }]) => [
      ...attempts.slice(1).map((attempt, index) => {
        const last = attempts[index].at(-1);
        return path(`lost ${COLOURS[way]}`, last && attempt[0] ? `M${place(last)}L${place(attempt[0])}` : "");
      }),
      path(`held ${COLOURS[way]}`, attempts.map((attempt) => `M${attempt.map(place).join("L")}`).join("")),
    ]);
    const svg = this.#figure.querySelector("svg");
    svg?.replaceChildren(
      path("grid", ["M0 0H100", ...timeSteps(seconds).map((time) => `M${x(time)} 0V100`)].join("")),
      path("break", `M0 ${breakAt}H100`),
      ...lines,
    );
    partOf(this.#figure, ".times").replaceChildren(...timeLabels("li", seconds));
    partOf(this.#figure, ".ends").replaceChildren(...tracks.flatMap(([way, { end }]) =>
      end === undefined ? [] : [endLabel(way, end, x(end))]));
  }
}

/**
 * @param {Way} way
 * @param {number} seconds
 * @param {number} percent
 */
function endLabel(way, seconds, percent) {
  const name = element("span", { class: "side" }, `${NAMES[way]} `);
  return element("span", { class: "end-label", style: `left: ${percent}%` }, name, duration(seconds));
}

/**
 * @param {string} name
 * @param {string} d
 */
function path(name, d) {
  const created = document.createElementNS("http://www.w3.org/2000/svg", "path");
  created.setAttribute("class", name);
  created.setAttribute("d", d);
  return created;
}
