// One tensor, loaded when it is chosen: its numbers, its histogram, its heat map. The data itself is not kept.

import { breakable, element, terms } from "./elements.js";
import { bytes, counted, duration, integer, shape, value } from "./format.js";
import { drawHeatmap } from "./heatmap.js";
import { drawHistogram } from "./histogram.js";
import { statisticsOf } from "./statistics.js";
import { readerOf } from "./values.js";

export class TensorView {
  #panel;
  /** What the panel says while nothing is chosen: as the page has it. */
  #nothing;
  #controller = new AbortController();
  #redraw = () => {};

  constructor(panel) {
    this.#panel = panel;
    this.#nothing = [...panel.childNodes];
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#redraw());
  }

  /** Nothing is chosen; whatever was loading stops. */
  clear() {
    this.#controller.abort();
    this.#redraw = () => {};
    this.#panel.replaceChildren(...this.#nothing);
  }

  /** Loads a tensor and shows it. Choosing another one meanwhile abandons this. Resolves to what was loaded. */
  async open(loader, info) {
    this.#controller.abort();
    const controller = new AbortController();
    this.#controller = controller;
    this.#redraw = () => {};
    const saying = element("p", { class: "hint", role: "status" }, "Loading…");
    this.#panel.replaceChildren(
      element("h2", { class: "tensor-name" }, ...breakable(info.name)),
      element("p", { class: "facts" }, `${info.dtype} · ${shape(info.shape)} · ${bytes(info.byteLength)}`),
      saying,
    );
    const before = loader.stats;
    const startedAt = performance.now();
    try {
      const tensor = await loader.loadTensor(info.name, { signal: controller.signal });
      const seconds = (performance.now() - startedAt) / 1000;
      if (controller.signal.aborted) return undefined;
      saying.textContent = loadedAlone(loader.stats, before, seconds);
      await this.#show(tensor, controller.signal);
      return controller.signal.aborted ? undefined : tensor;
    } catch (error) {
      if (controller.signal.aborted) return undefined;
      saying.textContent = "It could not be loaded.";
      throw error;
    }
  }

  async #show(tensor, signal) {
    const { data, dtype, shape, part } = drawable(tensor);
    if (!data || !readerOf(dtype)) {
      this.#panel.append(element("p", { class: "note" }, whyNotDrawn(tensor, dtype)));
      return;
    }
    const statistics = await statisticsOf(dtype, shape, data, signal);
    signal.throwIfAborted();
    if (statistics.count === 0) {
      this.#panel.append(element("p", { class: "note" }, "It has no values."));
      return;
    }
    if (part) this.#panel.append(element("p", { class: "note" }, part));
    this.#panel.append(numbers(statistics));
    if (statistics.min === statistics.max) {
      this.#panel.append(element("p", { class: "note" }, `Every value is ${value(statistics.min)}.`));
      return;
    }
    if (statistics.histogram) this.#panel.append(histogramFigure(statistics));
    if (statistics.grid) this.#appendHeatmap(statistics.grid);
  }

  #appendHeatmap(grid) {
    const canvas = element("canvas", { id: "heatmap", role: "img" });
    // As tall as the tensor's own proportions, between a strip and nearly a square.
    canvas.style.aspectRatio = String(Math.min(12, Math.max(1.2, grid.columns / grid.rows)));
    const low = element("span");
    const high = element("span");
    const ramp = element("span", { class: "ramp" });
    this.#panel.append(element("figure", {},
      element("figcaption", {}, heatmapCaption(grid)), canvas, element("p", { class: "axis" }, low, ramp, high)));
    this.#redraw = () => {
      const scale = drawHeatmap(canvas, grid);
      low.textContent = value(scale.low);
      high.textContent = value(scale.high);
      ramp.classList.toggle("signed", scale.signed);
      canvas.setAttribute("aria-label", `Heat map of ${grid.rows} rows by ${grid.columns} columns, from ${value(scale.low)} to ${value(scale.high)}.`);
    };
    this.#redraw();
  }
}

/** The values to draw: all of a dense tensor, those that a sparse one stores. */
function drawable({ data, dtype, shape, components, layout }) {
  if (data) return { data, dtype, shape };
  const values = components.get("values");
  if (!values) return { dtype };
  return { ...values, shape: [values.data.length], part: `Drawn are the values that this ${layout} tensor stores, without the zeros between them.` };
}

function whyNotDrawn({ components }, dtype) {
  const parts = components.size > 1 ? ` It has ${counted(components.size, "component")}: ${[...components.keys()].join(", ")}.` : "";
  return `It is loaded, but values of dtype ${dtype} are not drawn here.${parts}`;
}

function loadedAlone(after, before, seconds) {
  const requests = after.requests - before.requests;
  const received = after.bytesReceived - before.bytesReceived;
  if (requests === 0) return `Loaded in ${duration(seconds)} without a request: its bytes were at hand.`;
  return `Loaded alone in ${duration(seconds)}: ${counted(requests, "request")}, ${bytes(received)} received.`;
}

function numbers({ count, min, max, mean, std, nan, infinite, zeros }) {
  const list = element("dl", { class: "numbers" });
  list.append(...terms([
    ["min", value(min)], ["max", value(max)], ["mean", value(mean)], ["std", value(std)],
    ["values", integer(count)], ["zeros", integer(zeros)], ["NaN", integer(nan)], ["infinite", integer(infinite)],
  ]));
  return list;
}

function histogramFigure(statistics) {
  const { min, max, histogram: { from, to, outside } } = statistics;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.id = "histogram";
  drawHistogram(svg, statistics);
  const beyond = outside > 0 ? `; ${counted(outside, "value")} beyond five standard deviations not drawn` : "";
  return element("figure", {},
    element("figcaption", {}, `Values, the mean marked${beyond}`), svg,
    element("p", { class: "axis" }, element("span", {}, value(Math.max(from, min))), element("span", {}, value(Math.min(to, max)))));
}

function heatmapCaption({ rows, columns, width, height }) {
  const size = rows === 1 ? counted(columns, "value") : `${counted(rows, "row")} of ${counted(columns, "value")}`;
  if (rows === height && columns === width) return size;
  const [perRow, perColumn] = [Math.ceil(rows / height), Math.ceil(columns / width)];
  return `${size}; a cell is the mean of ${perRow > 1 ? `up to ${perRow}\u00a0×\u00a0${perColumn}` : `up to ${perColumn}`}`;
}
