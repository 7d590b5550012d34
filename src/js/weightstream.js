// @ts-check
// The public API of the package, which weightstream.d.ts documents. It checks options, converts errors and recovers
// from crashes; the WebAssembly module does the work.
import start, {
  __wbg_reset_state as resetInstance,
  Failure,
  Loader,
  cacheClear,
  cacheDelete,
  cacheList,
  onCrash,
  setWorkers,
  thisModule,
} from "./weightstream_glue.js";
import { LoadError, MAKE, fail, invalid } from "./weightstream.error.js";
import { crashFields, messageOf, recordPanic, whenCrashed } from "./weightstream.guard.js";
import * as options from "./weightstream.options.js";

/** @import * as Api from "./weightstream.js" */
/** @import { CheckedOpenOptions, CheckedSource, ModelLoader, TensorStream } from "./weightstream_glue.js" */

export { LoadError };

/** @type {Promise<void> | undefined} */
let started;

// A crash ends the instance of the module, and all loaders in it. Each instance has a number.
let instance = 0;
/** @type {LoadError | undefined} Set from the crash of an instance until the next instance starts. */
let crash;
/** @type {Set<(reason: unknown) => void>} Rejects the pending calls. */
const pendingCalls = new Set();
/** @type {Set<Worker>} */
const workers = new Set();

// A module with the type of a function that returns a v128.
const SIMD_MODULE = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7b]);

/** @type {typeof Api.init} */
export async function init(source = new URL("weightstream_bg.wasm", import.meta.url)) {
  if (!globalThis.WebAssembly?.validate(SIMD_MODULE)) throw fail({
    code: "UNSUPPORTED",
    message: "This browser does not support WebAssembly SIMD, which weightstream requires. " +
      "Use Chrome or Edge 91, Firefox 89, Safari 16.4 or a later version.",
  });
  started ??= start({ module_or_path: source }).then(() => onCrash(recordPanic), (cause) => {
    started = undefined; // so that a later call can succeed
    throw startError(cause);
  });
  await started;
  if (crash) startNextInstance(); // only now: the calling code may run inside the crashed instance
  callModule(() => setWorkers(startWorker, endWorker));
}

function startNextInstance() {
  try {
    resetInstance();
  } catch (cause) {
    throw startError(cause);
  }
  onCrash(recordPanic);
  crash = undefined;
  instance++;
}

/** @param {unknown} cause */
function startError(cause) {
  const what = `The WebAssembly module of weightstream could not be started: ${messageOf(cause)}. `;
  if (cause instanceof RangeError) return fail({
    code: "LIMIT",
    message: what + "The browser does not have enough memory: close other tabs, or release what is no longer needed.",
    cause,
  });
  const advice = "Check that weightstream_bg.wasm is served beside weightstream.js, or call init() with its URL.";
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
 * Browsers without `Symbol.dispose` get the symbol that polyfills and compilers use.
 *
 * @type {typeof Symbol.dispose}
 */
const dispose = Symbol.dispose ?? Symbol.for("Symbol.dispose");

/** @implements {Api.StreamingLoader} */
export class StreamingLoader {
  /** @type {ModelLoader} */
  #loader;
  /** @type {Settle} */
  #settle;
  #instance = instance;
  /** @type {string | undefined} Why a loader is not in the worker that was requested. */
  #workersError;

  /**
   * @param {symbol} make
   * @param {ModelLoader} loader
   * @param {{ settle?: Settle, workersError?: string | undefined }} [how]
   */
  constructor(make, loader, { settle: settleCall = settle, workersError } = {}) {
    if (make !== MAKE) throw new TypeError("Use StreamingLoader.open().");
    this.#loader = loader;
    this.#settle = settleCall;
    this.#workersError = workersError;
  }

  // A loader in a worker reports its crash itself.
  get #isLost() {
    return this.#settle === settle && (crash !== undefined || this.#instance !== instance);
  }

  get #usableLoader() {
    if (!this.#isLost) return this.#loader;
    const message = "This loader was lost when weightstream crashed. Open the model again.";
    throw crash ?? fail({ code: "CLOSED", message });
  }

  /** @type {typeof Api.StreamingLoader.open} */
  static async open(source, given) {
    const { inWorker, ...checked } = options.openOptions(given);
    const checkedSource = options.sourceOf(source);
    await init();
    const remote = inWorker ? await openInWorker(checkedSource, checked) : {};
    if (remote.loader) return new StreamingLoader(MAKE, remote.loader, { settle: async (call) => call() });
    return new StreamingLoader(MAKE, await settle(() => Loader.open(checkedSource, checked)), remote);
  }

  loadMetadata() {
    return this.#settle(() => this.#usableLoader.loadMetadata(addItems));
  }

  loadIndex() {
    return this.#settle(async () => {
      /** @type {Api.TensorInfo[]} */
      const tensors = [];
      await this.#usableLoader.loadIndex((...batch) => addTensors(tensors, ...batch));
      return tensors;
    });
  }

  /**
   * @param {string} name
   * @param {Api.LoadTensorOptions} [given]
   */
  loadTensor(name, given) {
    return this.#settle(async () =>
      this.#usableLoader.loadTensor(options.tensorName(name), options.tensorOptions(given)));
  }

  /** @param {Iterable<string>} names */
  prefetch(names) {
    const checked = options.names(names);
    callModule(() => this.#usableLoader.prefetch(checked));
  }

  /**
   * @param {Api.TensorsOptions} [given]
   * @returns {AsyncIterableIterator<Api.Tensor>}
   */
  tensors(given) {
    /** @type {TensorStream | undefined} */
    let stream;
    let isLost = () => false;
    // Reading starts when the first tensor is requested.
    const begin = () => {
      const { names, signal } = options.tensorsOptions(given);
      isLost = () => this.#isLost;
      return this.#usableLoader.tensors(names, signal);
    };
    const next = () => this.#settle(async () => {
      stream ??= begin();
      return this.#usableLoader && stream.next();
    });
    return new TensorIterator(next, () => {
      if (!isLost()) stream?.cancel();
    });
  }

  /** @param {{ signal?: AbortSignal | null | undefined }} [given] */
  verify(given) {
    return this.#settle(async () => this.#usableLoader.verify(options.verifyOptions(given).signal));
  }

  get stats() {
    const stats = callModule(() => this.#usableLoader.stats);
    return this.#workersError === undefined ? stats : { ...stats, workersError: this.#workersError };
  }

  close() {
    if (!this.#isLost) callModule(() => this.#loader.close());
  }

  [dispose]() {
    this.close();
  }
}

/**
 * Stops the load of an iterator that was garbage-collected.
 *
 * @type {FinalizationRegistry<() => void> | undefined}
 */
const abandoned = globalThis.FinalizationRegistry && new FinalizationRegistry((stop) => stop());

const AsyncIteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}.prototype));

/**
 * Like an async generator, except that `return` takes effect even while a call of `next` is pending.
 *
 * @implements {AsyncIterator<Api.Tensor>}
 */
class TensorIterator {
  #next;
  #stop;
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();
  #isDone = false;

  /**
   * @param {() => Promise<Api.Tensor | undefined>} next
   * @param {() => void} stop
   */
  constructor(next, stop) {
    this.#next = next;
    this.#stop = stop;
    abandoned?.register(this, stop, this);
  }

  next() {
    /** @returns {Promise<IteratorResult<Api.Tensor>>} */
    const step = async () => {
      if (this.#isDone) return { value: undefined, done: true };
      try {
        const value = await this.#next();
        if (value && !this.#isDone) return { value, done: false };
      } catch (error) {
        this.#end();
        throw error;
      }
      this.#end();
      return { value: undefined, done: true };
    };
    const result = this.#last.then(step);
    this.#last = result.catch(() => {});
    return result;
  }

  /**
   * @param {any} [value]
   * @returns {Promise<IteratorReturnResult<any>>}
   */
  async return(value) {
    this.#end();
    return { value: await value, done: true };
  }

  /**
   * @param {unknown} [error]
   * @returns {Promise<never>}
   */
  async throw(error) {
    this.#end();
    throw error;
  }

  /** @returns {AsyncIterableIterator<Api.Tensor>} */
  [Symbol.asyncIterator]() {
    return this;
  }

  #end() {
    if (this.#isDone) return;
    this.#isDone = true;
    abandoned?.unregister(this);
    this.#stop();
  }
}
Object.setPrototypeOf(TensorIterator.prototype, AsyncIteratorPrototype);
Object.defineProperty(TensorIterator.prototype, Symbol.toStringTag, { value: "TensorIterator", configurable: true });

/**
 * Fills `array` from index `start` on with numbers, or with the pieces of a text, of which `numbers` are the lengths.
 *
 * @param {unknown[]} array
 * @param {number} start
 * @param {ArrayLike<number>} numbers
 * @param {string} [text]
 */
function addItems(array, start, numbers, text) {
  let at = 0;
  for (let i = 0; i < numbers.length; i++) {
    array[start + i] = text === undefined ? numbers[i] : text.slice(at, (at += numbers[i] ?? 0));
  }
}

/**
 * Adds a `TensorInfo` for each tensor of a batch. `src/js/list.rs` writes `numbers` in the order in which they are read
 * here; some of them are lengths of pieces of `names`, or indexes into `strings`.
 *
 * @param {Api.TensorInfo[]} tensors
 * @param {string} names
 * @param {Float64Array} numbers
 * @param {string[]} strings
 * @param {Record<string, unknown>[]} attributesOfSome
 */
function addTensors(tensors, names, numbers, strings, attributesOfSome) {
  let at = 0;
  let nameAt = 0;
  let attributesAt = 0;
  while (at < numbers.length) {
    const name = names.slice(nameAt, (nameAt += numbers[at++]));
    const dtype = strings[numbers[at++]];
    const shape = new Array(numbers[at++]); // `push` to an empty array would allocate 17 elements
    for (let i = 0; i < shape.length; i++) shape[i] = numbers[at++];
    const layout = strings[numbers[at++]];
    const byteLength = numbers[at++];
    const shard = numbers[at++];
    const components = new Array(numbers[at++]);
    for (let i = 0; i < components.length; i++) components[i] = component();
    const attributes = numbers[at++] ? attributesOfSome[attributesAt++] : {};
    tensors.push({ name, dtype, shape, layout, byteLength, shard, components, attributes });
  }

  function component() {
    const role = strings[numbers[at++]];
    const dtype = strings[numbers[at++]];
    const length = numbers[at++];
    const byteLength = Number.isNaN(length) ? undefined : length;
    return { role, dtype, byteLength, storedByteLength: numbers[at++], encoding: strings[numbers[at++]] };
  }
}

/** @type {typeof Api.listCached} */
export async function listCached() {
  await init();
  return settle(() => cacheList());
}

/** @type {typeof Api.cachedBytes} */
export async function cachedBytes() {
  return (await listCached()).reduce((sum, { cachedBytes }) => sum + cachedBytes, 0);
}

/** @type {typeof Api.deleteCached} */
export async function deleteCached(url) {
  const address = options.urlOf(url);
  await init();
  return settle(() => cacheDelete(address, typeof url === "string" ? url : address));
}

/** @type {typeof Api.clearCache} */
export async function clearCache() {
  await init();
  return settle(() => cacheClear());
}

/**
 * Calls the module synchronously. If it crashes, throws the `LoadError` of the crash.
 *
 * @template T
 * @param {() => T} call
 */
function callModule(call) {
  try {
    return call();
  } catch (error) {
    throw error instanceof LoadError ? error : crash ?? error;
  }
}

/**
 * Makes an asynchronous call of the module settle even if the module crashes, and converts its errors to `LoadError`.
 *
 * @type {Settle}
 */
async function settle(call) {
  /** @type {(reason: unknown) => void} */
  let rejectCall = () => {};
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
    const error = fail(failure);
    failure.free();
    return error;
  } catch {
    // Its instance has crashed since.
    const message = "weightstream crashed before it could report an error. Open the model again.";
    return crash ?? fail({ code: "INTERNAL", message });
  }
}

/**
 * Opens a loader in a dedicated worker. If there can be no such worker, returns the reason.
 *
 * @param {CheckedSource} source
 * @param {CheckedOpenOptions} given
 * @returns {Promise<{ loader?: ModelLoader, workersError?: string }>}
 */
async function openInWorker(source, { fetch, cache, cacheKey, ...others }) {
  if (fetch || cacheKey || typeof cache === "object") {
    const what = "`inWorker` cannot be combined with `fetch`, `cacheKey` or a `cache` object";
    throw invalid(`${what}, which a worker cannot call`);
  }
  let remote;
  try {
    remote = await import("./weightstream.remote.js");
  } catch (cause) {
    return { workersError: `weightstream.remote.js cannot be loaded: ${messageOf(cause)}` };
  }
  return remote.openRemote(newWorker, thisModule(), source, { ...others, ...(cache && { cache }) });
}

// Bundlers detect exactly this expression.
const newWorker = () => new Worker(new URL("weightstream.worker.js", import.meta.url), { type: "module" });

function startWorker() {
  const worker = newWorker();
  workers.add(worker);
  return worker;
}

/** @param {Worker} worker */
function endWorker(worker) {
  worker.terminate();
  workers.delete(worker);
}
