// What a row of the tensor table says, and how rows are found and put in order.

import { element } from "./elements.js";
import { bytes, shape } from "./format.js";

export const COLUMNS = [
  { key: "name", label: "Name" },
  { key: "dtype", label: "Dtype" },
  { key: "shape", label: "Shape" },
  { key: "size", label: "Size" },
  { key: "checked", label: "Checked" },
];

/** The row of a tensor. `verified` is undefined until it was loaded. */
export function rowOf(tensor, verified) {
  const cell = (key, ...children) => element("td", { role: "gridcell", class: key }, ...children);
  return element("tr", { role: "row", "data-tensor": tensor.name },
    cell("name", ...nameParts(tensor.name)),
    cell("dtype", tensor.dtype),
    cell("shape", tensor.layout === "dense" ? shape(tensor.shape) : `${shape(tensor.shape)} ${tensor.layout}`),
    cell("size", bytes(tensor.byteLength)),
    cell("checked", checkedMark(verified)),
  );
}

/** All words must occur, wherever in name, dtype or shape. A shape may be typed with an x: `384x384`. */
export function matcher(query) {
  const words = query.toLowerCase().replaceAll("x", "×").split(/\s+/).filter(Boolean);
  return (tensor) => {
    const text = `${tensor.name} ${tensor.dtype} ${tensor.shape.join("×")} ${tensor.layout}`.toLowerCase().replaceAll("x", "×");
    return words.every((word) => text.includes(word));
  };
}

const natural = new Intl.Collator("en", { numeric: true });

export function comparator(column, descending, verified) {
  const compare = {
    name: (a, b) => natural.compare(a.name, b.name),
    dtype: (a, b) => natural.compare(a.dtype, b.dtype),
    shape: (a, b) => volume(a) - volume(b),
    size: (a, b) => a.byteLength - b.byteLength,
    checked: (a, b) => natural.compare(checkedText(verified.get(a.name)), checkedText(verified.get(b.name))),
  }[column];
  return descending ? (a, b) => compare(b, a) : compare;
}

function volume({ shape }) {
  return shape.reduce((product, dimension) => product * dimension, 1);
}

/** Where a name is too long for its column, its beginning is cut: the last two parts tell tensors apart. */
function nameParts(name) {
  const cut = name.lastIndexOf(".", name.lastIndexOf(".") - 1);
  const [beginning, end] = cut > 0 ? [name.slice(0, cut), name.slice(cut)] : ["", name];
  return [element("span", { class: "beginning", title: name }, beginning), element("span", { class: "end", title: name }, end)];
}

function checkedText(verified) {
  if (verified === undefined) return "";
  return verified ?? "loaded";
}

function checkedMark(verified) {
  if (verified === undefined) return element("span", { class: "not-yet", "aria-label": "not loaded yet" }, "–");
  if (verified === null) return element("span", { title: "There is no checksum of this tensor alone; a load of everything checks those of the files" }, "loaded");
  return element("span", { class: "sound" }, verified);
}
