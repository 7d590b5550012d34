// @ts-check
// Guards every entry into the WebAssembly module: calls, callbacks of promises and events, destructors. An exception
// that leaves the module, whether it is a trap or an exception of JavaScript that passed through it, has skipped the
// cleanup in Rust. The state of the instance is then undefined: it is not entered again, and all pending calls reject.

/** @import { ErrorFields } from "./glue.js" */

/**
 * How an instance ended.
 *
 * @typedef {object} Crash
 * @property {unknown} exception
 * @property {string} what The message of the panic, or else of the exception.
 * @property {boolean} [isMemory] Whether the instance ran out of memory.
 * @property {number} [bytes] The size of the allocation that failed; 0 if it is unknown.
 */

/** @type {WebAssembly.Exports | undefined} The exports of the instance that runs. */
export let currentExports;

/** @type {((crash: Crash) => void) | undefined} */
let crashListener;

/** @type {string | undefined} The message of a panic that has not trapped yet. */
let panicMessage;

/**
 * Sets the listener that is called once for each instance that crashes.
 *
 * @param {(crash: Crash) => void} listener
 */
export function whenCrashed(listener) {
  crashListener = listener;
}

/** @param {string} message */
export function recordPanic(message) {
  panicMessage = message;
}

/**
 * The controllers of the requests of the instance. If the instance crashes, nothing else can abort them.
 *
 * @type {Set<WeakRef<AbortController>>}
 */
const requests = new Set();
const MIN_SWEEP_SIZE = 64;
let sweepSize = MIN_SWEEP_SIZE; // collected controllers are removed when the set has this size

/** @param {AbortController} controller */
export function trackRequest(controller) {
  if (typeof WeakRef === "undefined") return controller;
  if (requests.size >= sweepSize) {
    for (const request of requests) if (!request.deref()) requests.delete(request);
    sweepSize = Math.max(MIN_SWEEP_SIZE, 2 * requests.size);
  }
  requests.add(new WeakRef(controller));
  return controller;
}

function abortRequests() {
  for (const request of requests) request.deref()?.abort();
  requests.clear();
}

// Exports that the glue calls from event handlers and finalizers, where nothing catches exceptions.
const CALLBACKS = /closures|^__wasm_bindgen_func_elem|^__wbindgen_destroy_closure$|^__wbg_.*_free$/;

/**
 * Wraps the exports of an instance, so that an exception from any of them ends it. `retire` makes the glue distinguish
 * the closures and objects of this instance from those of the next one.
 *
 * @param {WebAssembly.Exports} exports
 * @param {() => void} retire
 */
export function guard(exports, retire) {
  /** @type {Crash | undefined} */
  let crash;
  currentExports = exports;
  const guarded = Object.create(null);
  for (const [name, value] of Object.entries(exports)) {
    if (typeof value !== "function") guarded[name] = value;
    else if (CALLBACKS.test(name)) guarded[name] = guardCallback(value);
    else guarded[name] = guardCall(value);
  }
  return guarded;

  /** @param {Function} enter */
  function guardCallback(enter) {
    return (/** @type {unknown[]} */ ...parameters) => {
      if (crash) return 0;
      try {
        return enter(...parameters);
      } catch (exception) {
        end(exception);
        return 0; // valid for the glue, whatever type of result it expects
      }
    };
  }

  /** @param {Function} enter */
  function guardCall(enter) {
    return (/** @type {unknown[]} */ ...parameters) => {
      if (crash) throw crash.exception;
      try {
        return enter(...parameters);
      } catch (exception) {
        throw end(exception).exception;
      }
    };
  }

  /** @param {unknown} exception */
  function end(exception) {
    if (crash) return crash;
    crash = describeCrash(exception, exports);
    retire();
    crashListener?.(crash);
    abortRequests();
    return crash;
  }
}

/**
 * @param {unknown} exception
 * @param {WebAssembly.Exports} exports
 * @returns {Crash}
 */
function describeCrash(exception, exports) {
  const panic = panicMessage;
  panicMessage = undefined;
  if (panic !== undefined) return { exception, what: panic };
  const bytes = failedAllocation(exports);
  const what = messageOf(exception);
  const isTrap = exception instanceof WebAssembly.RuntimeError;
  const isMemory = bytes > 0 || (!isTrap && /memory|allocat|array length/i.test(what));
  return { exception, what, isMemory, bytes };
}

/**
 * The size of the allocation that failed, or 0. The export only reads a number, which is safe in any state of the
 * instance.
 *
 * @param {WebAssembly.Exports} exports
 */
function failedAllocation({ failedAllocation }) {
  try {
    return typeof failedAllocation === "function" ? failedAllocation() >>> 0 : 0;
  } catch {
    return 0;
  }
}

/**
 * The fields of the `LoadError` that reports a crash.
 *
 * @param {Crash} crash
 * @param {string} who What has crashed.
 * @param {string} lost What cannot be used any more.
 * @returns {ErrorFields}
 */
export function crashFields({ exception, what, isMemory, bytes = 0 }, who, lost) {
  if (!isMemory) return {
    code: "INTERNAL",
    message: `${who} crashed, and ${lost} with it: ${what}. ` +
      "Open the model again, and please report this with the file that caused it.",
    cause: exception,
  };
  const detail = bytes > 0 ? `${bytes} bytes could not be allocated` : what;
  return {
    code: "LIMIT",
    message: `${who} ran out of memory, and ${lost} was lost with it: ${detail}. ` +
      "Close loaders and release tensors that are no longer needed, or load less at a time (`maxMemory`), " +
      "then open the model again.",
    cause: exception,
  };
}

/**
 * The message of a thrown value.
 *
 * @param {unknown} exception
 * @returns {string}
 */
export function messageOf(exception) {
  const message = /** @type {{ message?: unknown } | null | undefined} */ (exception)?.message;
  return String(message ?? exception);
}
