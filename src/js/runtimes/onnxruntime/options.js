// @ts-check
// Checks the options of `externalData` and `prepare`.
import { check, getter, invalidValue, tryGet } from "../../options/check.js";
import { callable, integer, optional, options, signal } from "../../options/options.js";

/**
 * @template T
 * @typedef {import("../../options/check.js").Check<T>} Check
 */

const lengthOfBuffer = getter("ArrayBuffer", "byteLength");

/**
 * The bytes of a buffer or a view; undefined for anything else.
 *
 * @param {any} value
 * @returns {Uint8Array<ArrayBuffer> | undefined}
 */
export function bytesOf(value) {
  if (ArrayBuffer.isView(value)) {
    return new Uint8Array(/** @type {ArrayBuffer} */ (value.buffer), value.byteOffset, value.byteLength);
  }
  return tryGet(lengthOfBuffer, value) === undefined ? undefined : new Uint8Array(value);
}

/** @type {Check<Uint8Array<ArrayBuffer>>} */
const graph = (value, name) => {
  const bytes = bytesOf(value);
  if (!bytes) throw invalidValue(name, value, "the bytes of the graph");
  return bytes;
};

const isObject = (/** @type {unknown} */ value) => typeof value === "object" && value !== null;
/** @type {Check<import("../../weightstream.js").OpenOptions>} `StreamingLoader.open` checks them. */
const open = check(isObject, "an object with options of StreamingLoader.open");
const EXTERNAL = { signal, onProgress: callable, graph, readAhead: integer(0) };

/** @type {Check<any>} `streamed` awaits it: it may be a promise. */
const runtime = check(isObject, "ONNX Runtime Web, or a promise of it");
/** @type {Check<object>} ONNX Runtime checks them. */
const session = check(isObject, "an object with options of InferenceSession.create");
/** @type {Check<any>} `StreamingLoader.open` checks it. */
const weights = (value) => value;
const { graph: _, ...OBSERVED } = EXTERNAL;
const STREAMED = { ...OBSERVED, open, ort: runtime, session, weights };

export const externalOptions = optional(options(EXTERNAL, "externalData"));
export const prepareOptions = optional(options({ ...EXTERNAL, open }, "prepare"));
export const streamedOptions = optional(options(STREAMED, "streamed"));
