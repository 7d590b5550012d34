// @ts-check
// How TensorFlow.js takes the tensors of an index: the reverse of what the formats read from a `model.json`.
import { fail } from "../../loader/error.js";

/** @import { TfjsWeightSpec } from "./tfjs.js" */
/** @import { TensorInfo } from "../../weightstream.js" */

/** @typedef {Pick<TfjsWeightSpec, "dtype" | "quantization">} Stored */
/** @typedef {{ group?: "optimizer" }} Grouped */

/**
 * How TensorFlow.js stores elements of a dtype. It has unsigned integers only quantized, with a scale of 1.
 *
 * @type {Map<string, Stored>}
 */
const STORED = new Map([
  ["F32", { dtype: "float32" }],
  ["F16", { dtype: "float32", quantization: { dtype: "float16" } }],
  ["I32", { dtype: "int32" }],
  ["BOOL", { dtype: "bool" }],
  ["C64", { dtype: "complex64" }],
  ["U8", { dtype: "int32", quantization: { dtype: "uint8", scale: 1, min: 0 } }],
  ["U16", { dtype: "int32", quantization: { dtype: "uint16", scale: 1, min: 0 } }],
]);

/** @type {Map<unknown, string>} The dtypes of codes, by their names in TensorFlow.js. */
const CODES = new Map([["uint8", "U8"], ["uint16", "U16"]]);

/** @type {Stored} */
const FLOAT = { dtype: "float32" };

/**
 * The weights of TensorFlow.js for these tensors. If it lacks the dtype of one, such as BF16, all floats must be loaded
 * with `as: "F32"` and `layout: "dense"`, and the weights are those that result.
 *
 * @param {readonly TensorInfo[]} index
 * @returns {{ specs: TfjsWeightSpec[], isConverted: boolean }}
 * @throws `UNSUPPORTED` for integers that TensorFlow.js lacks.
 */
export function weightSpecs(index) {
  const stored = index.map(storedAs);
  const isConverted = stored.includes(undefined);
  const specs = index.map((tensor, at) => {
    const { name, shape, attributes } = tensor;
    const how = stored[at];
    /** @type {Grouped} */
    const grouped = attributes["group"] === "optimizer" ? { group: "optimizer" } : {};
    return { name, shape: [...shape], ...(how && !(isConverted && isFloat(tensor)) ? how : FLOAT), ...grouped };
  });
  return { specs, isConverted };
}

/**
 * How TensorFlow.js stores the bytes of the tensor; `undefined` if it must become F32.
 *
 * @param {TensorInfo} tensor
 */
function storedAs(tensor) {
  const { name, dtype, layout, components, attributes } = tensor;
  const quantization = /** @type {any} */ (attributes["quantization"]);
  const isOwn = layout !== "adapted" && quantization?.method === "tfjs"; // adapted codes are no longer codes
  if (isOwn && CODES.get(quantization.dtype) === components[0]?.dtype) {
    const { dtype, scale, min, to } = quantization;
    return { dtype: to, quantization: { dtype, scale, min } };
  }
  const stored = layout === "dense" ? STORED.get(dtype) : undefined;
  if (stored || isFloat(tensor)) return stored;
  const what = layout === "dense" ? `has no dtype ${dtype}` : `takes no ${dtype} of the layout ${layout}`;
  const message = `TensorFlow.js ${what}, which the tensor "${name}" has. ` +
    "Cast it to int32 before the model is exported, or load the other tensors without `ioHandler`.";
  throw fail({ code: "UNSUPPORTED", message, tensor: name });
}

/**
 * Whether `as` changes the tensor, or refuses it with a reason.
 *
 * @param {TensorInfo} tensor
 */
const isFloat = ({ dtype, layout }) =>
  layout === "quantized" || layout === "adapted" || !/^([IU]\d+|BOOL|C64)$/.test(dtype);
