// @ts-check
// A single tensor, loaded when it is chosen: its statistics, histogram and heat map. The data itself is not kept.

import { breakable, element, terms } from "./elements.js";
import { bytes, counted, duration, integer, shape, value } from "./format.js";
import { drawHeatmap } from "./heatmap.js";
import { drawHistogram } from "./histogram.js";
import { statisticsOf } from "./statistics.js";
import { readerOf } from "./values.js";

/** @import { StreamingLoader, Tensor, TensorData, TensorInfo } from "./pkg/weightstream.js" */
/** @import { Grid, Histogram, Statistics } from "./statistics.js" */

export class TensorView {
  #panel;
  /** The contents of the panel while no tensor is chosen. */
  #nothing;
  #controller = new AbortController();
  #redraw = () => {};

  /** @param {HTMLElement} panel */
  constructor(panel) {
    this.#panel = panel;
    this.#nothing = [...panel.childNodes];
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#redraw());
  }

  /** Shows that no tensor is chosen, and aborts a load. */
  clear() {
    this.#controller.abort();
    this.#redraw = () => {};
    this.#panel.replaceChildren(...this.#nothing);
  }

  /**
   * Loads a tensor and shows it. Resolves to the tensor, or to nothing if another one is chosen meanwhile.
   *
   * @param {StreamingLoader} loader
   * @param {TensorInfo} info
   * @returns {Promise<Tensor | undefined>}
   */
  async open(loader, info) {
    this.#controller.abort();
    const controller = new AbortController();
    this.#controller = controller;
    this.#redraw = () => {};
    const status = element("p", { class: "hint", role: "status" }, "Loading…");
    this.#panel.replaceChildren(
      element("h2", { class: "tensor-name" }, ...breakable(info.name)),
      element("p", { class: "facts" }, `${info.dtype} · ${shape(info.shape)} · ${bytes(info.byteLength)}`),
      status,
    );
    const before = loader.stats;
    const startedAt = performance.now();
    try {
      const tensor = await loader.loadTensor(info.name, { signal: controller.signal });
      const seconds = (performance.now() - startedAt) / 1000;
      if (controller.signal.aborted) return undefined;
      status.textContent = costOf(loader.stats, before, seconds);
      await this.#show(tensor, controller.signal);
      return controller.signal.aborted ? undefined : tensor;
    } catch (error) {
      if (controller.signal.aborted) return undefined;
      status.textContent = "It could not be loaded.";
      throw error;
    }
  }

  /**
   * @param {Tensor} tensor
   * @param {AbortSignal} signal
   */
  async #show(tensor, signal) {
    const { data, dtype, shape, part } = drawable(tensor);
    if (!data || !shape || !readerOf(dtype)) {
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
    const { histogram } = statistics;
    if (histogram) this.#panel.append(histogramFigure({ ...statistics, histogram }));
    if (statistics.grid) this.#appendHeatmap(statistics.grid);
  }

  /** @param {Grid} grid */
  #appendHeatmap(grid) {
    const canvas = element("canvas", { id: "heatmap", role: "img" });
    // The proportions of the tensor, limited to a range between a strip and almost a square.
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
      const size = `${grid.rows} rows by ${grid.columns} columns`;
      canvas.setAttribute("aria-label", `Heat map of ${size}, from ${value(scale.low)} to ${value(scale.high)}.`);
    };
    this.#redraw();
  }
}

/**
 * The values to draw: all values of a dense tensor, the stored values of a sparse one.
 *
 * @param {Tensor} tensor
 * @returns {{ dtype: string, data?: TensorData, shape?: readonly number[], part?: string }}
 */
function drawable({ data, dtype, shape, components, layout }) {
  if (data) return { data, dtype, shape };
  const values = components.get("values");
  if (!values) return { dtype };
  const part = `The drawing shows the stored values of this ${layout} tensor, without the zeros between them.`;
  return { ...values, shape: [values.data.length], part };
}

/**
 * @param {Tensor} tensor
 * @param {string} dtype
 */
function whyNotDrawn({ components }, dtype) {
  const roles = [...components.keys()].join(", ");
  const parts = components.size > 1 ? ` It has ${counted(components.size, "component")}: ${roles}.` : "";
  return `It is loaded, but this page cannot draw values of dtype ${dtype}.${parts}`;
}

/**
 * @param {{ requests: number, bytesReceived: number }} after
 * @param {{ requests: number, bytesReceived: number }} before
 * @param {number} seconds
 */
function costOf(after, before, seconds) {
  const requests = after.requests - before.requests;
  const received = after.bytesReceived - before.bytesReceived;
  if (requests === 0) return `Loaded in ${duration(seconds)} without a request.`;
  return `Loaded in ${duration(seconds)}: ${counted(requests, "request")}, ${bytes(received)} received.`;
}

/** @param {Statistics} statistics */
function numbers({ count, min, max, mean, std, nan, infinite, zeros }) {
  const list = element("dl", { class: "numbers" });
  list.append(...terms([
    ["min", value(min)], ["max", value(max)], ["mean", value(mean)], ["std", value(std)],
    ["values", integer(count)], ["zeros", integer(zeros)], ["NaN", integer(nan)], ["infinite", integer(infinite)],
  ]));
  return list;
}

/** @param {Statistics & { histogram: Histogram }} statistics */
function histogramFigure(statistics) {
  const { min, max, histogram: { from, to, outside } } = statistics;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.id = "histogram";
  drawHistogram(svg, statistics);
  const beyond = outside > 0 ? `, without ${counted(outside, "value")} beyond five standard deviations` : "";
  const [low, high] = [value(Math.max(from, min)), value(Math.min(to, max))];
  return element("figure", {},
    element("figcaption", {}, `Values with their mean${beyond}`), svg,
    element("p", { class: "axis" }, element("span", {}, low), element("span", {}, high)));
}

/** @param {Grid} grid */
function heatmapCaption({ rows, columns, width, height }) {
  const size = rows === 1 ? counted(columns, "value") : `${counted(rows, "row")} of ${counted(columns, "value")}`;
  if (rows === height && columns === width) return size;
  const [perRow, perColumn] = [Math.ceil(rows / height), Math.ceil(columns / width)];
  const values = perRow > 1 ? `${perRow}\u00a0×\u00a0${perColumn}` : perColumn;
  return `${size}; a cell is the mean of up to ${values}`;
}
