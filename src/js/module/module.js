// @ts-check
// The instance of the WebAssembly module in this thread: starts it, calls it, and replaces it after a crash.
import start, {
  __wbg_reset_state as resetInstance,
  Failure,
  cacheFolderPath,
  onCrash,
  setCache,
  setPolicy,
  setWorkers,
  thisModule,
} from "./glue.js";
import {
  compiled, followDeferred, isSplit, offerDeferred, prepareDeferred, unfollowDeferred,
} from "./deferred.js";
import { setPathOf } from "../cache/place.js";
import { LoadError, fail } from "../loader/error.js";
import { crashFields, messageOf, recordPanic, whenCrashed } from "./guard.js";
import {
  deferredSources, hold, moduleSource, newWorker, ownCache, setWorkerOptions,
} from "./location.js";
import { initOptions } from "../options/options.js";
import { isForbidden, moduleAdvice, offlineAdvice, requestAdvice, watchPolicy } from "./policy.js";

/** @import * as Api from "../weightstream.js" */
/** @import { PackageWorker } from "./glue.js" */
/** @import { WorkerRole } from "../worker/messages.js" */

/** @type {Promise<void> | undefined} */
let started;
let isStarted = false;
/** Whether the app has passed the module, which may have all parts. */
let isGiven = false;

setPathOf(async (url) => {
  await init();
  return settle(() => cacheFolderPath(url));
});

/** Whether the module is loaded. */
export const isReady = () => isStarted;

// A crash ends the instance of the module, and all loaders in it. Each instance has a number.
export let instance = 0;
/** @type {LoadError | undefined} Set from the crash of an instance until the next instance starts. */
export let crash;
/** @type {Set<(reason: unknown) => void>} Rejects the pending calls. */
const pendingCalls = new Set();
/** @type {Set<PackageWorker>} */
const workers = new Set();
/** @type {PackageWorker | undefined} A worker of the cache, which loads its script while the module is loaded. */
let early;
/** @type {unknown} The event of its failure. */
let earlyError;

// A module with the type of a function that returns a v128.
const SIMD_MODULE = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7b]);

/**
 * Starts the module, unless it is started already.
 *
 * @type {typeof Api.init}
 */
export async function init(given) {
  const { module, ...workers } = initOptions(given);
  setWorkerOptions(workers);
  watchPolicy();
  started ??= startModule(module).catch(async (cause) => {
    started = undefined; // so that a later call can succeed
    checkSimd();
    throw startError(cause, await moduleAdvice(messageOf(cause)));
  });
  await started;
  isStarted = true;
  if (crash) startNextInstance(); // only now: the calling code may run inside the crashed instance
  callModule(() => {
    setWorkers(startWorker, endWorker);
    setPolicy(isForbidden);
    const cache = ownCache();
    if (cache) setCache(cache);
  });
}

/** @param {Api.InitOptions["module"]} given */
async function startModule(given) {
  isGiven = given !== undefined;
  await start({ module_or_path: requested(given ?? moduleSource()) });
  onCrash(recordPanic);
  if (isSplit()) offerDeferred(deferredSources());
  prepareDeferred();
}

/**
 * Requests the module now if the source is its URL. The glue would first prepare what the module imports.
 *
 * @param {any} source
 * @returns {any}
 */
function requested(source) {
  if (typeof source?.then === "function") return source.then(requested);
  return typeof source === "string" || source instanceof URL || source instanceof Request ? fetch(source) : source;
}

function checkSimd() {
  if (!globalThis.WebAssembly?.validate(SIMD_MODULE)) throw fail({
    code: "UNSUPPORTED",
    message: "This platform does not support WebAssembly SIMD, which weightstream requires. " +
      "Use Chrome or Edge 91, Firefox 89, Safari 16.4 or a later version.",
  });
}

function startNextInstance() {
  try {
    resetInstance();
  } catch (cause) {
    throw startError(cause);
  }
  onCrash(recordPanic);
  prepareDeferred();
  crash = undefined;
  instance++;
}

/**
 * @param {unknown} cause
 * @param {string} [ofPolicy] what to change in the policy of the page
 */
function startError(cause, ofPolicy) {
  const reason = messageOf(cause).trim().replace(/\.$/, "");
  const what = `The WebAssembly module of weightstream could not be started: ${reason}. `;
  if (cause instanceof RangeError) return fail({
    code: "LIMIT",
    message: what + "The browser does not have enough memory: close other tabs, or release what is no longer needed.",
    cause,
  });
  const offline = offlineAdvice().trim();
  if (offline) return fail({ code: "NETWORK", message: what + offline, cause });
  const advice = ofPolicy ?? "Check that the `.wasm` files of the package are served beside weightstream.js, call " +
    "init() with the URL of weightstream_bg.wasm, or import \"weightstream/inline\". With Vite, add " +
    "\"weightstream\" to `optimizeDeps.exclude` in its configuration.";
  return fail({ code: "INTERNAL", message: what + advice, cause });
}

// The crashed instance must not be entered any more.
whenCrashed((end) => {
  crash = fail(crashFields(end, "weightstream", "every open loader"));
  workers.forEach(endWorker); // they reply to the crashed instance
  for (const reject of pendingCalls) reject(crash);
  pendingCalls.clear();
});

/**
 * Wraps each call of a loader. For a loader in this thread, this is {@link settle}. A loader in a worker needs no
 * wrapper.
 *
 * @typedef {<T>(call: () => Promise<T>) => Promise<T>} Settle
 */

/**
 * Calls the module synchronously. Throws its errors, and that of a crash, as `LoadError`.
 *
 * @template T
 * @param {() => T} call
 */
export function callModule(call) {
  try {
    return call();
  } catch (error) {
    throw error instanceof Failure ? loadErrorOf(error) : error instanceof LoadError ? error : crash ?? error;
  }
}

/**
 * Makes an asynchronous call of the module settle even if the module crashes, and converts its errors to `LoadError`.
 *
 * @type {Settle}
 */
export async function settle(call) {
  /** @type {(reason: unknown) => void} */
  let rejectCall = () => {};
  const release = hold();
  try {
    return await new Promise((resolve, reject) => {
      pendingCalls.add((rejectCall = reject));
      call().then(resolve, reject);
    });
  } catch (error) {
    if (error instanceof LoadError) throw error;
    if (!(error instanceof Failure)) throw isCrash(error) ? crash : error; // the reason of an abort
    throw loadErrorOf(error);
  } finally {
    pendingCalls.delete(rejectCall);
    release();
  }
}

/**
 * Whether the module crashed with this exception. Otherwise it is the reason of an abort.
 *
 * @param {unknown} error
 */
const isCrash = (error) => crash !== undefined && (error instanceof WebAssembly.RuntimeError || error === crash.cause);

/** @param {Failure} failure */
function loadErrorOf(failure) {
  try {
    const { message, code, url, tensor, range, status, cause } = failure;
    const advice = code === "NETWORK" ? requestAdvice(url) : undefined;
    failure.free();
    if (cause instanceof LoadError) return cause; // of the caller's `fetch`
    return fail({ message: advice ? `${message} ${advice}` : message, code, url, tensor, range, status, cause });
  } catch {
    // Its instance has crashed since.
    const message = "weightstream crashed before it could report an error. Open the model again.";
    return crash ?? fail({ code: "INTERNAL", message });
  }
}

/**
 * Starts to load a deferred part already now, if the module is not ready yet.
 *
 * @param {number} part
 */
export function loadEarly(part) {
  if (isStarted || isGiven) return;
  try {
    const source = deferredSources()[part];
    if (source !== undefined) compiled(part, source);
  } catch {
    // Code without a URL of its own, as in Cloudflare Workers, has no files beside it.
  }
}

/** Starts the worker of the cache already now, if the module is not ready yet. */
export function startEarly() {
  if (isStarted || early) return;
  try {
    early = newWorker();
    early.onerror = (event) => {
      event.preventDefault();
      earlyError = event;
    };
  } catch {
    // The module then starts a worker itself, and reports the error.
  }
}

/** @param {WorkerRole} role */
function startWorker(role) {
  const taken = role === "cache" ? early : undefined;
  const worker = followDeferred(taken ?? newWorker());
  worker.postMessage([thisModule(), role]);
  if (taken) {
    early = undefined;
    if (earlyError) setTimeout(() => worker.onerror?.(earlyError)); // the module then handles errors
  }
  workers.add(worker);
  return worker;
}

/** @param {PackageWorker} worker */
function endWorker(worker) {
  worker.terminate();
  workers.delete(worker);
  unfollowDeferred(worker);
}

/**
 * Browsers without `Symbol.dispose` get the symbol that polyfills and compilers use.
 *
 * @type {typeof Symbol.dispose}
 */
export const dispose = Symbol.dispose ?? Symbol.for("Symbol.dispose");
