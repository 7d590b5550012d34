// The picture of a load: a lane for each file, with its bytes from left to right and time from top to bottom.
// A connection draws a slope through the lane, and what it has brought stays filled below it.

import { element } from "./elements.js";
import { bytes, duration, integer } from "./format.js";
import { drawLane } from "./lane.js";

/** The palette of style.css; a load of more connections uses it again. */
const COLOURS = 8;
/** More lanes than these are drawn low, as the strip alone. */
const MAX_TALL_LANES = 10;
// Neighbouring arrivals are one stroke where they are closer in time than a picture could show.
const STROKES_PER_PICTURE = 250;
const GRID_LINES = 5;

export class RangesPicture {
  #figure;
  #lanes = new Map();
  #connections = new Set();
  #startedAt = 0;
  #lastAt = 0;
  #seconds = 0;
  #running = false;
  #frame = 0;

  constructor(figure) {
    this.#figure = figure;
    new ResizeObserver(() => this.#redrawSoon()).observe(this.#part(".lanes"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#redrawSoon());
  }

  /** Empty lanes for the files of a newly opened model. */
  show(tensors) {
    const stored = new Map();
    for (const tensor of tensors) {
      const length = tensor.components.reduce((sum, component) => sum + component.storedByteLength, 0);
      stored.set(tensor.shard, (stored.get(tensor.shard) ?? 0) + length);
    }
    const shards = [...stored.keys()].sort((a, b) => a - b);
    const low = shards.length > MAX_TALL_LANES;
    this.#figure.classList.toggle("low", low);
    // Low lanes may scroll, which must be possible without a pointer.
    this.#part(".lanes").tabIndex = low ? 0 : -1;
    this.#lanes = new Map(shards.map((shard) => [shard, this.#makeLane(shard, stored.get(shard), shards.length)]));
    this.#part(".lanes").replaceChildren(...[...this.#lanes.values()].map((lane) => lane.item));
    this.begin();
    this.#running = false;
  }

  /** A load of everything begins: time starts, and the last picture goes. */
  begin() {
    this.#connections.clear();
    for (const lane of this.#lanes.values()) Object.assign(lane, { strokes: [], marks: [], arrived: 0, finishedAt: 0 });
    this.#startedAt = performance.now();
    this.#lastAt = 0;
    this.#seconds = 0;
    this.#running = true;
    this.#part(".readout").textContent = "";
    this.#redrawSoon();
  }

  /** Takes the ranges of a progress event: of the load of everything, or of one tensor. */
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

  end(seconds) {
    this.#running = false;
    this.#seconds = seconds;
    // The last event may come a moment after the last tensor.
    for (const lane of this.#lanes.values()) lane.finishedAt = Math.min(lane.finishedAt, seconds);
    this.#redrawSoon();
  }

  #addStroke(lane, { start, end, connection }, now) {
    this.#connections.add(connection);
    lane.arrived += end - start;
    lane.finishedAt = now;
    const last = lane.strokes.findLast((stroke) => stroke.connection === connection);
    if (last?.end === start && now - last.from < now / STROKES_PER_PICTURE) {
      last.end = end;
      last.to = now;
    } else {
      const from = last?.end === start ? last.to : this.#lastAt;
      lane.strokes.push({ start, end, from, to: now, connection });
    }
  }

  #makeLane(shard, stored, count) {
    const canvas = element("canvas", { "aria-hidden": "true" });
    const figures = element("span", { class: "lane-figures" });
    const name = element("span", { class: "lane-name" }, count === 1 ? "The file" : `File ${shard + 1}`);
    const item = element("li", {}, name, canvas, figures);
    const lane = { shard, stored, length: stored, canvas, figures, item, strokes: [], marks: [], arrived: 0, finishedAt: 0 };
    canvas.addEventListener("pointermove", (event) => this.#readOut(lane, event.offsetX / canvas.clientWidth));
    canvas.addEventListener("pointerleave", () => this.#part(".readout").replaceChildren());
    return lane;
  }

  #readOut(lane, fraction) {
    const byte = Math.floor(fraction * this.#longest());
    if (byte >= lane.length) return;
    const place = `Byte ${integer(byte)} of file ${lane.shard + 1}`;
    const stroke = lane.strokes.find(({ start, end }) => start <= byte && byte < end);
    const mark = lane.marks.some(({ start, end }) => start <= byte && byte < end);
    this.#part(".readout").textContent = stroke
      ? `${place} came after ${duration(stroke.from + (stroke.to - stroke.from) * ((byte - stroke.start) / (stroke.end - stroke.start)))} on connection ${stroke.connection + 1}`
      : `${place} ${mark ? "came for one tensor" : "is not here"}`;
  }

  #longest() {
    return Math.max(1, ...[...this.#lanes.values()].map((lane) => lane.length));
  }

  #redrawSoon() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#redraw();
    });
  }

  #redraw() {
    const css = getComputedStyle(this.#figure);
    const colour = (name) => css.getPropertyValue(name).trim();
    const palette = {
      connections: Array.from({ length: COLOURS }, (_, index) => colour(`--c${index}`)),
      mark: colour("--ink"),
      track: colour("--track"),
      line: colour("--line"),
    };
    const seconds = this.#running ? niceSeconds(this.#lastAt) : this.#seconds || this.#lastAt;
    const longest = this.#longest();
    const scale = { longest, seconds: Math.max(seconds, 1e-3), step: niceStep(longest / GRID_LINES) };
    for (const lane of this.#lanes.values()) {
      drawLane(lane, scale, palette);
      lane.figures.textContent = this.#figuresOf(lane);
    }
    this.#labelBytes(scale);
    this.#drawLegend();
  }

  #labelBytes({ longest, step, seconds }) {
    const labels = [];
    for (let byte = 0; byte < longest * 0.94; byte += step) {
      labels.push(element("span", { style: `left: ${(byte / longest) * 100}%` }, byte === 0 ? "0" : bytes(byte)));
    }
    this.#part(".bytes").replaceChildren(...labels);
    this.#part(".height").textContent = this.#connections.size > 0 ? `A lane is ${duration(seconds)} high.` : "";
  }

  #figuresOf({ stored, arrived, finishedAt }) {
    if (arrived === 0) return bytes(stored);
    if (arrived < stored) return `${bytes(arrived)} of ${bytes(stored)}`;
    return `${bytes(stored)} in ${duration(finishedAt)}`;
  }

  #drawLegend() {
    const entries = [...this.#connections].sort((a, b) => a - b).map((connection) =>
      element("li", { class: `c${connection % COLOURS}` }, `connection ${connection + 1}`));
    const marks = [...this.#lanes.values()].reduce((sum, lane) => sum + lane.marks.length, 0);
    if (marks > 0) entries.push(element("li", { class: "mark" }, "one tensor, on demand"));
    this.#part(".legend").replaceChildren(...entries);
  }

  #part(selector) {
    return this.#figure.querySelector(selector);
  }
}

/** 1, 2 or 5 times a power of ten, not below what is asked for. */
function niceStep(least) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return unit * [1, 2, 5, 10].find((factor) => unit * factor >= least);
}

/** The time axis of a load that runs: the next round number of seconds, so that it grows in few steps. */
function niceSeconds(elapsed) {
  let unit = 0.25;
  for (;;) {
    for (const factor of [1, 2, 4]) if (elapsed < unit * factor) return unit * factor;
    unit *= 10;
  }
}
