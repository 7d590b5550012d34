// @ts-check
// The `model.json` of TensorFlow.js, and its list of weights.
import { fail } from "../../loader/error.js";

/** @import { TfjsWeightSpec } from "./tfjs.js" */

/** @typedef {{ paths: string[], weights: TfjsWeightSpec[] }} Group Weights that are concatenated in files. */
/** @typedef {Record<string, any> & { weightsManifest?: Group[] }} Model */

/** The bytes of one value. */
const VALUE_BYTES = new Map([
  ["float32", 4], ["float16", 2], ["int32", 4], ["uint16", 2], ["uint8", 1], ["bool", 1], ["complex64", 8],
]);

/**
 * Checks the parts of a `model.json` that locate its weights. A list of weights without a topology has them at its top
 * level.
 *
 * @param {unknown} json
 * @param {string} url
 * @returns {Model}
 */
export function checkModel(json, url) {
  const model = Array.isArray(json) ? { weightsManifest: json } : json;
  const { modelTopology = null, weightsManifest = null } = isObject(model) ? model : {};
  if (modelTopology === null && weightsManifest === null) {
    throw malformed("it has neither `modelTopology` nor `weightsManifest`", url);
  }
  if (weightsManifest === null) {
    const { weightsManifest: _, ...others } = /** @type {Model} */ (model);
    return others;
  }
  if (!Array.isArray(weightsManifest)) throw malformed("`weightsManifest` is not a list", url);
  for (const group of weightsManifest) checkGroup(group, url);
  return /** @type {Model} */ (model);
}

/** @param {Group[]} groups */
export const weightsIn = (groups) => groups.flatMap(({ weights }) => weights);

/**
 * The number of bytes of a weight; `undefined` for strings, whose lengths are among their bytes.
 *
 * @param {TfjsWeightSpec} weight
 */
export function byteLengthOf({ shape, dtype, quantization }) {
  const stored = quantization?.dtype ?? dtype;
  return stored === "string" ? undefined : valuesIn(shape) * /** @type {number} */ (VALUE_BYTES.get(stored));
}

/** @param {readonly number[]} shape */
export const valuesIn = (shape) => shape.reduce((product, size) => product * size, 1);

/**
 * Only graph models read a stream: `tf.loadLayersModel` ignores it.
 *
 * @param {{ modelTopology?: any, format?: string, [key: string]: any }} model
 */
export const isGraph = ({ modelTopology, format }) => Array.isArray(modelTopology?.node) || format === "graph-model";

/**
 * @param {any} group
 * @param {string} url
 */
function checkGroup(group, url) {
  const { paths, weights } = isObject(group) ? group : /** @type {any} */ ({});
  if (!Array.isArray(paths) || !paths.every((path) => typeof path === "string" && path !== "")) {
    throw malformed("a group of weights has no list `paths` of its files", url);
  }
  if (!Array.isArray(weights)) throw malformed("a group of weights has no list `weights`", url);
  for (const weight of weights) {
    const { name, shape, dtype, quantization } = isObject(weight) ? weight : /** @type {any} */ ({});
    if (typeof name !== "string") throw malformed("a weight has no `name`", url);
    const isSize = (/** @type {unknown} */ size) => Number.isSafeInteger(size) && Number(size) >= 0;
    if (!Array.isArray(shape) || !shape.every(isSize) || !Number.isSafeInteger(valuesIn(shape) * 8)) {
      throw malformed(`the weight "${name}" has no valid \`shape\``, url);
    }
    const stored = quantization?.dtype ?? dtype;
    if (stored === "string" || VALUE_BYTES.has(stored)) continue;
    const message = `The weight "${name}" of ${url} has the data type "${stored}", which TensorFlow.js 4.22 lacks.`;
    throw fail({ code: "UNSUPPORTED", message, url });
  }
}

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
const isObject = (value) => typeof value === "object" && value !== null;

/**
 * @param {string} what
 * @param {string} url
 */
const malformed = (what, url) =>
  fail({ code: "FORMAT", message: `${url} is not a model of TensorFlow.js: ${what}. Check the URL.`, url });
