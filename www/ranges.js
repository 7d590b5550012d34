// @ts-check
// The chart of a load: a lane for each file, with time from left to right and the bytes of the file from bottom to top.
// Each connection draws a slope through the lane. The area below it stays filled.

import { element, partOf } from "./elements.js";
import { bytes, duration } from "./format.js";
import { drawLane, widthOf } from "./lane.js";
import { niceSeconds, timeLabels, timeSteps } from "./scale.js";

/** @import { ArrivedRange, LoadProgress, TensorInfo } from "./pkg/weightstream.js" */

/**
 * Contiguous bytes that arrived over one connection, from one time to another, in seconds since the load began.
 *
 * @typedef {{ start: number, end: number, from: number, to: number, connection: number }} Stroke
 */

/**
 * One file of the model. `marks` are the ranges that were loaded for single tensors.
 *
 * @typedef {object} Lane
 * @property {number} shard
 * @property {number} stored The number of bytes of its tensors in the file.
 * @property {number} length The length of the file, as far as it is known.
 * @property {HTMLCanvasElement} canvas
 * @property {HTMLElement} figures
 * @property {HTMLElement} item
 * @property {Stroke[]} strokes
 * @property {ArrivedRange[]} marks
 * @property {number} arrived
 * @property {number} finishedAt
 */

/** The number of colours in style.css. A load with more connections uses them again. */
const COLOURS = 8;
/** If there are more lanes, each is only a strip. */
const MAX_TALL_LANES = 10;
// Neighbouring ranges are joined to one stroke if they are closer in time than the chart can show.
const STROKES_PER_CHART = 250;

export class RangesChart {
  #figure;
  /** @type {Map<number, Lane>} */
  #lanes = new Map();
  /** @type {Set<number>} */
  #connections = new Set();
  #startedAt = 0;
  #lastAt = 0;
  #seconds = 0;
  #running = false;
  /** The length of the time axis. */
  #axis = 1;
  #frame = 0;

  /** @param {HTMLElement} figure */
  constructor(figure) {
    this.#figure = figure;
    new ResizeObserver(() => this.#redrawSoon()).observe(this.#part(".lanes"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#redrawSoon());
  }

  /**
   * Shows empty lanes for the files of a newly opened model.
   *
   * @param {readonly TensorInfo[]} tensors
   */
  show(tensors) {
    /** @type {Map<number, number>} */
    const stored = new Map();
    for (const tensor of tensors) {
      const length = tensor.components.reduce((sum, component) => sum + component.storedByteLength, 0);
      stored.set(tensor.shard, (stored.get(tensor.shard) ?? 0) + length);
    }
    const files = [...stored].sort(([a], [b]) => a - b);
    const low = files.length > MAX_TALL_LANES;
    this.#figure.classList.toggle("low", low);
    // Low lanes may scroll, which must also work with the keyboard.
    this.#part(".lanes").tabIndex = low ? 0 : -1;
    this.#lanes = new Map(files.map(([shard, bytes]) => [shard, this.#makeLane(shard, bytes, files.length)]));
    this.#part(".lanes").replaceChildren(...[...this.#lanes.values()].map((lane) => lane.item));
    this.begin();
    this.#running = false;
  }

  /** Clears the chart when a load of the whole model begins. */
  begin() {
    this.#connections.clear();
    for (const lane of this.#lanes.values()) {
      Object.assign(lane, { strokes: [], marks: [], arrived: 0, finishedAt: 0 });
    }
    this.#startedAt = performance.now();
    this.#lastAt = 0;
    this.#seconds = 0;
    this.#running = true;
    this.#part(".readout").textContent = "";
    this.#redrawSoon();
  }

  /**
   * Adds the ranges of a progress event, of the load of the whole model or of a single tensor.
   *
   * @param {LoadProgress} progress
   */
  add({ type, ranges }) {
    const now = (performance.now() - this.#startedAt) / 1000;
    for (const range of ranges) {
      const lane = this.#lanes.get(range.shard);
      if (!lane) continue;
      lane.length = Math.max(lane.length, range.end);
      if (type === "tensors" && this.#running) this.#addStroke(lane, range, now);
      else lane.marks.push(range);
    }
    if (type === "tensors") this.#lastAt = now;
    this.#redrawSoon();
  }

  /** @param {number} seconds */
  end(seconds) {
    this.#running = false;
    this.#seconds = seconds;
    // The last event may come a moment after the last tensor.
    for (const lane of this.#lanes.values()) lane.finishedAt = Math.min(lane.finishedAt, seconds);
    this.#redrawSoon();
  }

  /**
   * @param {Lane} lane
   * @param {ArrivedRange} range
   * @param {number} now
   */
  #addStroke(lane, { start, end, connection }, now) {
    this.#connections.add(connection);
    lane.arrived += end - start;
    lane.finishedAt = now;
    const last = lane.strokes.findLast((stroke) => stroke.connection === connection);
    if (last && last.end === start && now - last.from < now / STROKES_PER_CHART) {
      last.end = end;
      last.to = now;
    } else {
      const from = last?.end === start ? last.to : this.#lastAt;
      lane.strokes.push({ start, end, from, to: now, connection });
    }
  }

  /**
   * @param {number} shard
   * @param {number} stored
   * @param {number} count
   * @returns {Lane}
   */
  #makeLane(shard, stored, count) {
    const canvas = element("canvas", { "aria-hidden": "true" });
    const figures = element("span", { class: "lane-figures" });
    const name = element("span", { class: "lane-name" }, count === 1 ? "The file" : `File ${shard + 1}`);
    const item = element("li", {}, name, canvas, figures);
    /** @type {Lane} */
    const lane = {
      shard, stored, length: stored, canvas, figures, item, strokes: [], marks: [], arrived: 0, finishedAt: 0,
    };
    canvas.addEventListener("pointermove", (event) => this.#readOut(lane, event.offsetX / widthOf(canvas)));
    canvas.addEventListener("pointerleave", () => this.#part(".readout").replaceChildren());
    return lane;
  }

  /**
   * Describes how much of a file had arrived at the time under the pointer.
   *
   * @param {Lane} lane
   * @param {number} fraction
   */
  #readOut({ shard, stored, strokes }, fraction) {
    const time = fraction * this.#axis;
    if (strokes.length === 0 || time > this.#axis) return;
    const arrived = strokes.reduce((sum, { start, end, from, to }) => {
      const share = to > from ? Math.min(Math.max((time - from) / (to - from), 0), 1) : Number(time >= to);
      return sum + (end - start) * share;
    }, 0);
    const text = `After ${duration(time)}, ${bytes(arrived)} of ${bytes(stored)} of file ${shard + 1} had arrived`;
    this.#part(".readout").textContent = text;
  }

  #redrawSoon() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#redraw();
    });
  }

  #redraw() {
    const css = getComputedStyle(this.#figure);
    const colour = (/** @type {string} */ name) => css.getPropertyValue(name).trim();
    const palette = {
      connections: Array.from({ length: COLOURS }, (_, index) => colour(`--c${index}`)),
      mark: colour("--ink"),
      track: colour("--track"),
      line: colour("--line"),
    };
    const seconds = this.#running ? niceSeconds(this.#lastAt) : this.#seconds || this.#lastAt;
    this.#axis = Math.max(seconds, 1e-3);
    const scale = { seconds: this.#axis, steps: timeSteps(this.#axis) };
    for (const lane of this.#lanes.values()) {
      drawLane(lane, scale, palette);
      lane.figures.textContent = this.#figuresOf(lane);
    }
    this.#part(".times").replaceChildren(...(this.#connections.size > 0 ? timeLabels("span", this.#axis) : []));
    this.#drawLegend();
  }

  /** @param {Lane} lane */
  #figuresOf({ stored, arrived, finishedAt }) {
    if (arrived === 0) return bytes(stored);
    if (arrived < stored) return `${bytes(arrived)} of ${bytes(stored)}`;
    return `${bytes(stored)} in ${duration(finishedAt)}`;
  }

  #drawLegend() {
    const entries = [...this.#connections].sort((a, b) => a - b).map((connection) =>
      element("li", { class: `c${connection % COLOURS}` }, `connection ${connection + 1}`));
    const marks = [...this.#lanes.values()].reduce((sum, lane) => sum + lane.marks.length, 0);
    if (marks > 0) entries.push(element("li", { class: "mark" }, "single tensors"));
    this.#part(".legend").replaceChildren(...entries);
  }

  /** @param {string} selector */
  #part(selector) {
    return partOf(this.#figure, selector);
  }
}
