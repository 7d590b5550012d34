// @ts-check
// The chart of the race: time from left to right, the share of the model that each side has from bottom to top.

import { element, partOf } from "./elements.js";
import { duration, percent } from "./format.js";
import { niceSeconds, timeLabels, timeSteps } from "./scale.js";

/** @import { Way } from "./racer.js" */

/** A place on a line: seconds, and the share of the model. @typedef {[seconds: number, share: number]} Point */

/** The lines of one side: each attempt begins a new one. @typedef {{ attempts: Point[][], end?: number }} Track */

const COLOURS = { weightstream: "c0", fetch: "c1" };
export const NAMES = { weightstream: "weightstream", fetch: "fetch()" };

// The axis before the first race.
const SECONDS_BEFORE = 7;
// The axis of a race that has ended, relative to its time, so that the end is not at the edge.
const MARGIN = 1.04;
// The level that is marked if no connection is cut.
const MIDDLE = 0.5;

export class RaceChart {
  #figure;
  /** @type {number | undefined} */
  #cutShare;
  #leastSeconds = 0;
  /** @type {Map<Way, Track>} */
  #tracks = new Map();
  #frame = 0;

  /** @param {HTMLElement} figure */
  constructor(figure) {
    this.#figure = figure;
  }

  /**
   * Clears the chart.
   *
   * @param {Way[]} ways
   * @param {number | undefined} cutShare The share of the model after which the connections are cut.
   * @param {number} [seconds] How long the race takes at least.
   */
  begin(ways, cutShare, seconds = SECONDS_BEFORE) {
    this.#tracks = new Map(ways.map((way) => [way, { attempts: [[[0, 0]]] }]));
    this.#cutShare = cutShare;
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
    const level = this.#cutShare ?? MIDDLE;
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
      path(this.#cutShare === undefined ? "grid" : "break", `M0 ${(1 - level) * 100}H100`),
      ...lines,
    );
    const levelLabel = partOf(this.#figure, ".levels li:nth-child(2)");
    levelLabel.textContent = percent(level);
    levelLabel.style.setProperty("--level", String(level));
    partOf(this.#figure, ".times").replaceChildren(...timeLabels("li", seconds));
    partOf(this.#figure, ".ends").replaceChildren(...tracks.flatMap(([way, { end }]) =>
      end === undefined ? [] : [endLabel(way, end, x(end))]));
  }
}

/**
 * The time of a side at the place where its line ends. Each side has a row of its own, so that labels never overlap.
 *
 * @param {Way} way
 * @param {number} seconds
 * @param {number} place In percent of the width.
 */
function endLabel(way, seconds, place) {
  const label = element("span", { class: `end-label ${COLOURS[way]}` }, `${NAMES[way]} ${duration(seconds)}`);
  label.style.setProperty("--place", String(place));
  return label;
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
