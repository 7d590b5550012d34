// @ts-check
// The contents of a row of the tensor table, and how rows are filtered and sorted.

import { element } from "./elements.js";
import { bytes, shape } from "./format.js";

/** @import { TensorInfo } from "./pkg/weightstream.js" */

/**
 * How a tensor was verified, as a checksum algorithm; null if there is none; undefined before the tensor is loaded.
 *
 * @typedef {string | null | undefined} Check
 */

/** @type {{ key: Column, label: string }[]} */
export const COLUMNS = [
  { key: "name", label: "Name" },
  { key: "dtype", label: "Dtype" },
  { key: "shape", label: "Shape" },
  { key: "size", label: "Size" },
  { key: "checked", label: "Checked" },
];

/** @typedef {"name" | "dtype" | "shape" | "size" | "checked"} Column */

/**
 * The row of a tensor.
 *
 * @param {TensorInfo} tensor
 * @param {Check} verified
 */
export function rowOf(tensor, verified) {
  /** @type {(key: Column, ...children: (Node | string)[]) => HTMLElement} */
  const cell = (key, ...children) => element("td", { role: "gridcell", class: key }, ...children);
  return element("tr", { role: "row", "data-tensor": tensor.name },
    cell("name", ...nameParts(tensor.name)),
    cell("dtype", tensor.dtype),
    cell("shape", tensor.layout === "dense" ? shape(tensor.shape) : `${shape(tensor.shape)} ${tensor.layout}`),
    cell("size", bytes(tensor.byteLength)),
    cell("checked", checkedMark(verified)),
  );
}

/**
 * Matches tensors whose name, dtype or shape contain all words of the query. A shape may be typed with an x: `384x384`.
 *
 * @param {string} query
 * @returns {(tensor: TensorInfo) => boolean}
 */
export function matcher(query) {
  const words = query.toLowerCase().replaceAll("x", "×").split(/\s+/).filter(Boolean);
  return ({ name, dtype, shape, layout }) => {
    const text = `${name} ${dtype} ${shape.join("×")} ${layout}`.toLowerCase().replaceAll("x", "×");
    return words.every((word) => text.includes(word));
  };
}

const NO_CHECKSUM = "This tensor has no checksum of its own. " +
  "A load of all tensors verifies the checksums of the files.";

const natural = new Intl.Collator("en", { numeric: true });

/**
 * Compares tensors by a column.
 *
 * @param {Column} column
 * @param {boolean} descending
 * @param {Map<string, Check>} verified
 * @returns {(a: TensorInfo, b: TensorInfo) => number}
 */
export function comparator(column, descending, verified) {
  /** @type {Record<Column, (a: TensorInfo, b: TensorInfo) => number>} */
  const comparators = {
    name: (a, b) => natural.compare(a.name, b.name),
    dtype: (a, b) => natural.compare(a.dtype, b.dtype),
    shape: (a, b) => volume(a) - volume(b),
    size: (a, b) => (a.byteLength ?? 0) - (b.byteLength ?? 0),
    checked: (a, b) => natural.compare(checkedText(verified.get(a.name)), checkedText(verified.get(b.name))),
  };
  const compare = comparators[column];
  return descending ? (a, b) => compare(b, a) : compare;
}

/** @param {TensorInfo} tensor */
function volume({ shape }) {
  return shape.reduce((product, dimension) => product * dimension, 1);
}

/**
 * If a name is too long for its column, its beginning is cut: the last two parts distinguish the tensors.
 *
 * @param {string} name
 */
function nameParts(name) {
  const cut = name.lastIndexOf(".", name.lastIndexOf(".") - 1);
  const [beginning, end] = cut > 0 ? [name.slice(0, cut), name.slice(cut)] : ["", name];
  return [
    element("span", { class: "beginning", title: name }, beginning),
    element("span", { class: "end", title: name }, end),
  ];
}

/** @param {Check} verified */
function checkedText(verified) {
  if (verified === undefined) return "";
  return verified ?? "loaded";
}

/** @param {Check} verified */
function checkedMark(verified) {
  if (verified === undefined) return element("span", { class: "not-yet", "aria-label": "not loaded yet" }, "–");
  if (verified === null) return element("span", { title: NO_CHECKSUM }, "loaded");
  return element("span", { class: "sound" }, verified);
}
