// @ts-check
// The contents of a row of the tensor table, and how rows are filtered and sorted.

import { nameOf } from "./checks.js";
import { element } from "./elements.js";
import { bytes, shape } from "./format.js";

/** @import { Algorithm } from "./checks.js" */
/** @import { TensorInfo } from "./pkg/weightstream.js" */

/**
 * The checksum that has verified a tensor, its own or that of its file; null if it has none; undefined before the
 * tensor is loaded.
 *
 * @typedef {{ algorithm: Algorithm, isOfFile: boolean } | null | undefined} Check
 */

/** @type {{ key: Column, label: string }[]} */
export const COLUMNS = [
  { key: "name", label: "Name" },
  { key: "dtype", label: "Dtype" },
  { key: "shape", label: "Shape" },
  { key: "size", label: "Size" },
  { key: "checked", label: "Checksum" },
];

/** @typedef {"name" | "dtype" | "shape" | "size" | "checked"} Column */

/**
 * The row of a tensor.
 *
 * @param {TensorInfo} tensor
 * @param {readonly string[]} name The segments of its name that are shown.
 * @param {Check} verified
 */
export function rowOf(tensor, name, verified) {
  /** @type {(key: Column, ...children: (Node | string)[]) => HTMLElement} */
  const cell = (key, ...children) => element("td", { role: "gridcell", class: key }, ...children);
  return element("tr", { role: "row", "data-tensor": tensor.name },
    cell("name", element("span", { title: tensor.name }, ...name.flatMap((part) => [part, element("wbr")]))),
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

const NO_CHECKSUM = "Loaded. This tensor has no checksum of its own. " +
  "A load of all tensors compares the checksums of the files, if they have any.";

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

/** @param {Check} check */
function checkedText(check) {
  if (check === undefined) return "";
  if (check === null) return "none";
  return check.isOfFile ? `${nameOf(check.algorithm)} of file` : nameOf(check.algorithm);
}

/** @param {Check} check */
function checkedMark(check) {
  if (check === undefined) return element("span", { class: "not-yet", "aria-label": "not loaded yet" }, "–");
  if (check === null) return element("span", { title: NO_CHECKSUM }, checkedText(check));
  return element("span", { class: "sound" }, checkedText(check));
}
