// @ts-check
// Checks the options of `externalData` and `prepare`.
import { check, getter, invalidValue, tryGet } from "../../options/check.js";
import { callable, integer, optional, options, signal } from "../../options/options.js";

/**
 * @template T
 * @typedef {import("../../options/check.js").Check<T>} Check
 */

const lengthOfBuffer = getter("ArrayBuffer", "byteLength");

/** @type {Check<Uint8Array<ArrayBuffer>>} */
const graph = (value, name) => {
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (tryGet(lengthOfBuffer, value) !== undefined) return new Uint8Array(value);
  throw invalidValue(name, value, "the bytes of the graph");
};

const isObject = (/** @type {unknown} */ value) => typeof value === "object" && value !== null;
/** @type {Check<import("../../weightstream.js").OpenOptions>} `StreamingLoader.open` checks them. */
const open = check(isObject, "an object with options of StreamingLoader.open");
const EXTERNAL = { signal, onProgress: callable, graph, readAhead: integer(0) };

export const externalOptions = optional(options(EXTERNAL, "externalData"));
export const prepareOptions = optional(options({ ...EXTERNAL, open }, "prepare"));
