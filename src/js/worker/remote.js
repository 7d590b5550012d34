// @ts-check
// The page's end of a loader in a worker: the methods of the loader in WebAssembly, as messages. The worker's end is in
// worker.js.
import { unfollowDeferred } from "../module/deferred.js";
import { closedLoader, fail, invalid } from "../loader/error.js";
import { messageOf } from "../module/guard.js";
import { hold, released } from "../module/location.js";

/** @import * as Api from "../weightstream.js" */
/**
 * @import {
 *   AddItems, AddTensors, CheckedOpenOptions, CheckedSource, CheckedTensorOptions, CheckedTensorsOptions,
 *   ErrorFields, ModelLoader, ModelView, PackageWorker, TensorReader, TensorStream,
 * } from "../module/glue.js"
 */
/** @import { CrossOriginStorage } from "../cache/cross_origin_storage.js" */
/** @import { Storage } from "../loader/loader.js" */
/** @import { RemoteMethods, ReplyMessage, RequestMessage, SentTensor } from "./messages.js" */

// A worker that has not replied this long after its start is considered failed.
const START_TIMEOUT_MS = 10_000;

// Starting a worker, with those that it starts itself, takes a tenth of a second. A worker whose loader is closed
// therefore waits this long for the next loader.
const IDLE_TIMEOUT_MS = 10_000;

// The page reports to the worker, in steps of this size, how many bytes it has taken. This is the flow control.
const CREDIT_STEP_BYTES = 2 << 20;

/**
 * A worker, and whether it runs: `startError` resolves to the reason why it does not.
 *
 * @typedef {{ worker: PackageWorker, startError: Promise<string | undefined> }} StartedWorker
 */

/** @type {StartedWorker & { timer: ReturnType<typeof setTimeout> } | undefined} */
let idleWorker;

/** The number of the last call of any loader. Numbers are unique, so a late reply never belongs to another call. */
let lastNumber = 0;

/**
 * Opens a model in a worker, which runs the same module. Returns the loader, or the reason why no worker could be
 * started.
 *
 * @param {() => PackageWorker} newWorker
 * @param {WebAssembly.Module} module
 * @param {CheckedSource} source
 * @param {Omit<CheckedOpenOptions, "partUrl" | "crossOriginStorage"> & { partUrl?: false }} options
 * @param {Storage | undefined} storage
 * @returns {Promise<{ loader: ModelLoader } | { workersError: string }>}
 */
export async function openRemote(newWorker, module, source, { signal, onProgress, ...options }, storage) {
  const started = takeIdleWorker() ?? startWorker(newWorker, module);
  if (typeof started === "string") return { workersError: started };
  const loader = new RemoteLoader(started, onProgress, storage?.access);
  const workersError = await loader.startError(signal);
  if (workersError !== undefined) return { workersError };
  try {
    await loader.open(source, { ...options, onProgress: onProgress !== undefined }, signal);
    return { loader };
  } catch (error) {
    loader.close();
    throw error;
  }
}

/**
 * Starts a worker. If the page may not have workers, returns the reason instead.
 *
 * @param {() => PackageWorker} newWorker
 * @param {WebAssembly.Module} module
 * @returns {StartedWorker | string}
 */
function startWorker(newWorker, module) {
  /** @type {PackageWorker} */
  let worker;
  try {
    worker = newWorker();
  } catch (cause) {
    return `workers cannot be started: ${messageOf(cause)}`;
  }
  /** @type {Promise<string | undefined>} */
  const startError = new Promise((resolve) => {
    const timedOut = `weightstream.worker.js has not started within ${START_TIMEOUT_MS / 1000} s`;
    const timer = setTimeout(resolve, START_TIMEOUT_MS, timedOut);
    const settle = (/** @type {string | undefined} */ reason) => {
      clearTimeout(timer);
      resolve(reason);
    };
    worker.onmessage = ({ data }) => {
      settle(data?.crash && `weightstream.worker.js does not run: ${data.crash.message}`);
    };
    onWorkerError(worker, (message) => {
      settle(message ? `weightstream.worker.js does not run: ${message}` : UNKNOWN_START_ERROR);
    });
    try {
      worker.postMessage([module, "loader"]);
    } catch (cause) {
      settle(`the module cannot be sent to a worker: ${messageOf(cause)}`);
    }
  });
  return { worker, startError };
}

// Browsers do not report why a script could not be loaded.
const UNKNOWN_START_ERROR = "weightstream.worker.js cannot be loaded: it is not served or not bundled, or the page's " +
  "Content-Security-Policy (`worker-src`) forbids it";

/**
 * Calls the listener with the message of an error that the worker does not catch, and does not report it to the page.
 *
 * @param {PackageWorker} worker
 * @param {(message: string | undefined) => void} listener
 */
function onWorkerError(worker, listener) {
  worker.onerror = (event) => {
    event.preventDefault?.();
    listener(event.message);
  };
  worker.onmessageerror = () => listener(undefined);
}

function takeIdleWorker() {
  const taken = idleWorker;
  idleWorker = undefined;
  clearTimeout(taken?.timer);
  return taken;
}

/** @param {PackageWorker} worker */
function keepIdle(worker) {
  if (idleWorker) return end(worker);
  const drop = () => {
    if (idleWorker?.worker === worker) takeIdleWorker();
    end(worker);
  };
  worker.onmessage = ({ data }) => data.crash && drop();
  worker.onerror = worker.onmessageerror = drop;
  const timer = released(setTimeout(drop, IDLE_TIMEOUT_MS)); // an idle worker must not keep the process running
  idleWorker = { worker, startError: Promise.resolve(undefined), timer };
}

/** @param {PackageWorker} worker */
function end(worker) {
  worker.terminate();
  unfollowDeferred(worker);
}

/**
 * A call that waits for replies.
 *
 * @typedef {object} Call
 * @property {number} number
 * @property {(value: any) => void} resolve
 * @property {(reason: unknown) => void} reject
 * @property {() => void} abort
 * @property {((...piece: any) => void) | undefined} add
 * @property {((sent: SentTensor) => void) | undefined} take
 */

/** @implements {ModelLoader} */
class RemoteLoader {
  #worker;
  #startError;
  #onProgress;
  #storage;
  #hasCrashed = false;
  /** @type {Map<number, Call>} */
  #calls = new Map();
  /** @type {unknown} The `LoadError` of all further calls, once the loader is closed or its worker has crashed. */
  #lost;
  /** @type {Omit<Api.LoaderStats, "cachePersisted" | "crossOriginStorage"> | undefined} */
  #stats;
  /** Lets the process end, which is kept running while a closed loader writes to the cache. */
  #release = () => {};

  /**
   * @param {StartedWorker} started
   * @param {CheckedOpenOptions["onProgress"]} onProgress
   * @param {CrossOriginStorage | undefined} storage
   */
  constructor({ worker, startError }, onProgress, storage) {
    this.#storage = storage;
    this.#worker = worker;
    this.#onProgress = onProgress;
    this.#startError = startError.then((reason) => {
      if (reason !== undefined) {
        end(worker);
        return reason;
      }
      worker.onmessage = ({ data }) => this.#receive(data);
      onWorkerError(worker, (message) => {
        this.#crashed(crashOf(message || "a message cannot be read, or the browser reports no reason"));
      });
      return undefined;
    });
  }

  get stats() {
    // `open` has resolved with stats.
    return /** @type {Omit<Api.LoaderStats, "cachePersisted" | "crossOriginStorage">} */ (this.#stats);
  }

  /**
   * The reason why the worker does not run. If the signal aborts first, resolves to undefined; `open` then rejects.
   *
   * @param {AbortSignal | undefined} signal
   * @returns {Promise<string | undefined>}
   */
  startError(signal) {
    return new Promise((resolve) => {
      const abort = () => resolve(undefined);
      if (signal?.aborted) return abort();
      signal?.addEventListener("abort", abort);
      this.#startError.then((reason) => {
        signal?.removeEventListener("abort", abort);
        resolve(reason);
      });
    });
  }

  /**
   * @param {CheckedSource} source
   * @param {Parameters<RemoteMethods["open"]>[1]} options
   * @param {AbortSignal | undefined} signal
   */
  open(source, options, signal) {
    if (!this.#storage) return this.#call("open", [source, options], { signal });
    // The page asks Cross-Origin Storage: extensions that provide it are not in workers.
    const crossOriginStorage = { port: this.#storage.port(), isWritten: this.#storage.isWritten };
    return this.#call("open", [source, { ...options, crossOriginStorage }], { signal }, [crossOriginStorage.port]);
  }

  /**
   * @param {AddItems} add
   * @param {AbortSignal | undefined} signal
   */
  loadMetadata(add, signal) {
    return this.#call("loadMetadata", [], { add, signal });
  }

  /**
   * @param {AddTensors} add
   * @param {AbortSignal | undefined} signal
   */
  loadIndex(add, signal) {
    return this.#call("loadIndex", [], { add, signal });
  }

  /** @param {AbortSignal | undefined} signal */
  warnings(signal) {
    return this.#call("warnings", [], { signal });
  }

  /**
   * @param {string} name
   * @param {CheckedTensorOptions} options
   */
  async loadTensor(name, { signal, into, ...others }) {
    if (!into) return this.#call("loadTensor", [name, others], { signal });
    const isShared = isSharedMemory(into.buffer);
    const sent = isShared ? into : sameSize(into);
    const transferred = isShared ? [] : [sent.buffer];
    const tensor = await this.#call("loadTensor", [name, { ...others, into: sent }], { signal }, transferred);
    moveInto(into, tensor, !isShared, name);
    return tensor;
  }

  /**
   * @param {string[]} names
   * @param {AbortSignal | undefined} signal
   */
  prefetch(names, signal) {
    return this.#call("prefetch", [names], { signal });
  }

  /** @param {AbortSignal | undefined} signal */
  verify(signal) {
    return this.#call("verify", [], { signal });
  }

  /** @returns {Promise<ModelView>} */
  async openView() {
    return {
      byteLength: await this.#call("openView", []),
      hasFileChecks: () => this.#call("hasFileChecks", []),
      read: async (start, end, signal) => {
        const reader = ++lastNumber;
        this.#call("readView", [reader, [start, end]]).catch(() => {}); // `fill` rejects, too
        return this.#reader(reader, signal, false);
      },
    };
  }

  /**
   * @param {string[] | undefined} names
   * @param {[first: number, end: number] | undefined} rows
   * @param {boolean} isInOrder
   * @param {boolean} isOne
   * @param {"F32" | "F16" | undefined} as
   * @param {AbortSignal | undefined} signal
   * @returns {Promise<TensorReader>}
   */
  async readTensors(names, rows, isInOrder, isOne, as, signal) {
    const reader = ++lastNumber;
    await this.#call("readTensors", [reader, names, rows, isInOrder, isOne, as], { signal });
    return this.#reader(reader, signal, true);
  }

  /**
   * @param {number} number
   * @param {AbortSignal | undefined} signal
   * @param {boolean} overwrites Whether a piece is valid only until the next `fill`. Its memory then goes back to the
   *   worker: new memory for each piece would be freed only by a garbage collection.
   * @returns {TensorReader}
   */
  #reader(number, signal, overwrites) {
    /** @type {ArrayBuffer | undefined} */
    let piece;
    const fill = async (/** @type {number} */ length) => {
      const [used, transferred] = piece?.byteLength ? [piece, [piece]] : []; // unless somebody has taken it
      piece = undefined;
      const bytes = await this.#call("callReader", [number, "fill", length, used], { signal }, transferred);
      if (overwrites) piece = bytes.buffer;
      return bytes;
    };
    const end = (/** @type {"cancel" | "fail"} */ method) => {
      signal?.removeEventListener("abort", cancel);
      this.#call("callReader", [number, method]).catch(() => {}); // the loader is closed
    };
    const cancel = () => end("cancel");
    signal?.addEventListener("abort", cancel); // stops the request, even if no call is pending
    return {
      next: () => this.#call("callReader", [number, "next"], { signal }),
      fill,
      verified: () => this.#call("callReader", [number, "verified"]),
      fail: () => end("fail"),
      cancel,
    };
  }

  /**
   * @param {CheckedTensorsOptions} options
   * @returns {TensorStream}
   */
  tensors({ signal, ...options }) {
    /** @type {SentTensor[]} Tensors that have arrived before they were requested. */
    const arrived = [];
    let wake = () => {};
    let isOver = false;
    let isCancelled = false;
    let takenBytes = 0;
    const take = (/** @type {SentTensor} */ sent) => {
      arrived.push(sent);
      wake();
    };
    const number = ++lastNumber;
    const outcome = this.#call("tensors", [options], { signal, take, number });
    const end = (/** @type {boolean} */ isFailed) => {
      isOver = true;
      if (isFailed) arrived.length = 0; // they must not be delivered any more
      wake();
    };
    outcome.then(() => end(false), () => end(true));
    return {
      next: async () => {
        while (arrived.length === 0 && !isOver) await new Promise((resolve) => (wake = () => resolve(undefined)));
        const next = arrived.shift();
        if (!next) return isCancelled ? undefined : outcome;
        takenBytes += next.byteLength;
        if (takenBytes >= CREDIT_STEP_BYTES) {
          this.#post({ number, takenBytes });
          takenBytes = 0;
        }
        return next.tensor;
      },
      cancel: () => {
        isCancelled = true;
        if (!isOver) this.#calls.get(number)?.abort();
        end(true);
      },
    };
  }

  close() {
    if (this.#lost) return;
    this.#lose(closedLoader());
    // The worker replies when everything is written to the cache.
    this.#release = hold();
    this.#startError.then((reason) => (reason === undefined ? this.#post({ isClosed: true }) : this.#release()));
  }

  /**
   * @template {keyof RemoteMethods} Method
   * @param {Method} method
   * @param {Parameters<RemoteMethods[Method]>} args
   * @param {{ signal?: AbortSignal | undefined, add?: Call["add"], take?: Call["take"], number?: number }} [call]
   * @param {Transferable[]} [transferred]
   * @returns {Promise<ReturnType<RemoteMethods[Method]>>}
   */
  #call(method, args, { signal, add, take, number = ++lastNumber } = {}, transferred = []) {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#lost) return Promise.reject(this.#lost);
    return new Promise((resolve, reject) => {
      const settled = () => {
        this.#calls.delete(number);
        signal?.removeEventListener("abort", call.abort);
      };
      /** @type {Call} */
      const call = {
        number,
        add,
        take,
        resolve: (value) => (settled(), resolve(value)),
        reject: (reason) => (settled(), reject(reason)),
        abort: () => {
          this.#post({ number, isStopped: true });
          call.reject(signal?.reason);
        },
      };
      try {
        this.#post(/** @type {RequestMessage} */ ({ number, method, args }), transferred);
      } catch (cause) {
        const what = `the arguments of ${method} cannot be sent to a worker (${messageOf(cause)}): remove \`inWorker\``;
        return reject(invalid(what, cause));
      }
      this.#calls.set(number, call);
      signal?.addEventListener("abort", call.abort);
    });
  }

  /**
   * @param {RequestMessage} message
   * @param {Transferable[]} [transferred]
   */
  #post(message, transferred = []) {
    this.#worker.postMessage(message, transferred);
  }

  /** @param {ReplyMessage} message */
  #receive({ stats, progress, crash, hasEnded, number, pieces, tensor, failure, isDone, value }) {
    if (stats) this.#stats = stats;
    if (crash) return this.#crashed(crash);
    if (hasEnded) return this.#ended();
    if (progress) return this.#reportProgress(progress);
    const call = number === undefined ? undefined : this.#calls.get(number);
    if (!call) return; // it was aborted
    pieces?.forEach((piece) => call.add?.(...piece));
    if (tensor) call.take?.(tensor);
    if (failure) call.reject(fail(failure));
    if (isDone) call.resolve(value);
  }

  #ended() {
    this.#release();
    if (!this.#storage) return keepIdle(this.#worker);
    // The worker reads what is being stored.
    this.#storage.settled().then(() => this.#hasCrashed || keepIdle(this.#worker));
  }

  /**
   * An exception in the listener of the page must be reported, but must not end the load.
   *
   * @param {Api.LoadProgress} progress
   */
  #reportProgress(progress) {
    try {
      this.#onProgress?.(progress);
    } catch (exception) {
      reportError(exception);
    }
  }

  /** @param {ErrorFields} fields */
  #crashed(fields) {
    this.#hasCrashed = true;
    end(this.#worker);
    this.#storage?.abandon();
    this.#release();
    this.#lose(fail(fields));
  }

  /** @param {unknown} error */
  #lose(error) {
    this.#lost ??= error;
    for (const call of [...this.#calls.values()]) call.reject(this.#lost);
  }
}

/**
 * @param {string} what
 * @returns {ErrorFields}
 */
const crashOf = (what) => ({
  code: "INTERNAL",
  message: `weightstream crashed in its worker, and the loader with it: ${what}. ` +
    "Open the model again, and please report this with the file that caused it.",
});

/** @param {ArrayBufferLike} memory */
const isSharedMemory = (memory) => Object.prototype.toString.call(memory) === "[object SharedArrayBuffer]";

/**
 * New memory of the same size, which can be transferred to the worker. It has the same alignment modulo 8.
 *
 * @param {Uint8Array} into
 */
function sameSize({ byteOffset, byteLength }) {
  const start = byteOffset % 8;
  return new Uint8Array(new ArrayBuffer(start + byteLength), start, byteLength);
}

/**
 * Replaces the arrays of a tensor by views of the caller's own memory. A copy is copied into that memory. Shared memory
 * has the bytes already, but arrives from the worker as another buffer object.
 *
 * @param {Uint8Array} own
 * @param {Api.Tensor} tensor
 * @param {boolean} isCopy
 * @param {string} name
 */
function moveInto(own, tensor, isCopy, name) {
  /** @type {{ data: any, components: ReadonlyMap<string, { data: any }> }} */
  const writable = tensor;
  for (const component of writable.components.values()) {
    const { data } = component;
    try {
      if (isCopy) own.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      component.data = new data.constructor(own.buffer, own.byteOffset, data.length);
    } catch (cause) {
      throw fail({
        code: "INVALID_ARGUMENT",
        message: `tensor "${name}": \`into\` was detached or shrunk while a tensor was loaded into it. ` +
          "Do not transfer or resize its memory until the call has settled.",
        tensor: name,
        cause,
      });
    }
    if (writable.data) writable.data = component.data;
  }
}
