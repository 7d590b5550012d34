// @ts-check
// An open model. It checks options and decides in which thread the loader of the module runs.
import { Loader, thisModule } from "../module/glue.js";
import { checkAborted, untilAborted } from "./abort.js";
import { CloseListeners, WHEN_CLOSED } from "./closing.js";
import { MAKE, closedLoader, fail, invalid } from "./error.js";
import { messageOf } from "../module/guard.js";
import { moveToGpu } from "../gpu/gpu.js";
import { EarlyHead, withEarlyCache } from "../source/head.js";
import { TensorIterator } from "./iterator.js";
import { addFiles, addItems, addTensors } from "./list.js";
import { followDeferred } from "../module/deferred.js";
import { hasWorkers, holding, newWorker } from "../module/location.js";
import { callModule, crash, dispose, init, instance, settle } from "../module/module.js";
import { isResponse } from "../source/once.js";
import * as options from "../options/options.js";
import { offlineAdvice } from "../module/policy.js";
import { numbered } from "./progress.js";
import { prepared, withSignature } from "../source/source.js";
import { cachePersisted } from "../cache/storage.js";
import { withMethods } from "./tensor.js";
import { modelBlob } from "./view.js";

/** @import * as Api from "../weightstream.js" */
/** @import { CheckedOpenOptions, CheckedSource, ModelLoader, ModelView, TensorStream } from "../module/glue.js" */
/** @import { Settle } from "../module/module.js" */
/** @import { Target } from "../gpu/gpu.js" */

export const NAMES_IN_CACHE = Symbol("namesInCache");
export const IS_CACHING = Symbol("isCaching");

/** @implements {Api.StreamingLoader} */
export class StreamingLoader {
  /** @type {ModelLoader} */
  #loader;
  /** @type {Settle} */
  #settle;
  #instance = instance;
  #isClosed = false;
  #closeListeners = new CloseListeners();
  /** @type {ModelView | undefined} */
  #view;
  /** @type {string | undefined} Why a loader is not in the worker that was requested. */
  #workersError;
  /** @type {boolean | undefined} */
  #isPersisted;

  /**
   * @param {symbol} make
   * @param {ModelLoader} loader
   * @param {{ settle?: Settle, workersError?: string | undefined, isPersisted?: boolean | undefined }} [how]
   */
  constructor(make, loader, { settle: settleCall = settle, workersError, isPersisted } = {}) {
    if (make !== MAKE) throw new TypeError("Use StreamingLoader.open().");
    this.#loader = loader;
    this.#settle = settleCall;
    this.#workersError = workersError;
    this.#isPersisted = isPersisted;
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
    const { inWorker, onProgress, ...others } = options.openOptions(given);
    const checked = { ...others, ...(onProgress && { onProgress: numbered(onProgress) }) };
    if (inWorker) checkForWorker(source, checked);
    const head = new EarlyHead();
    const { signal } = checked;
    const opening = async () => {
      const isWhole = inWorker || checked.signature !== undefined; // of a signed model, whole files are requested first
      const preparing = prepared(source, checked)
        .then((ready) => (inWorker ? ready : withEarlyCache(ready)))
        .then((ready) => (isWhole ? ready : head.request(source, ready)));
      const [unsigned] = await Promise.all([preparing, init()]);
      checkAborted(signal);
      if (inWorker) checkPostable(unsigned.source);
      const ready = await withSignature(unsigned, source);
      const { signature } = ready.options;
      return StreamingLoader.#openReady(ready, inWorker ? { ...checked, signature } : undefined);
    };
    try {
      return await untilAborted(signal, opening, (loader) => loader.close());
    } finally {
      head.end();
    }
  }

  /**
   * @param {{ source: CheckedSource, options: CheckedOpenOptions }} ready
   * @param {CheckedOpenOptions} [inWorker] The options for a loader in a worker.
   */
  static async #openReady({ source, options: checked }, inWorker) {
    const isPersisted = cachePersisted(source, checked.cache);
    const remote = inWorker ? await holding(() => openInWorker(source, inWorker)) : {};
    const loader = remote.loader ?? (await settle(() => Loader.open(source, checked)));
    const how = { workersError: remote.workersError, isPersisted: await isPersisted };
    if (remote.loader) return new StreamingLoader(MAKE, loader, { ...how, settle: holding });
    return new StreamingLoader(MAKE, loader, how);
  }

  /** @param {Api.CallOptions} [given] */
  loadMetadata(given) {
    return this.#settle(async () => this.#usableLoader.loadMetadata(addItems, options.callOptions(given).signal));
  }

  /** @param {Api.CallOptions} [given] */
  loadIndex(given) {
    return this.#settle(async () => {
      const { signal } = options.callOptions(given);
      /** @type {Api.TensorInfo[]} */
      const tensors = [];
      addFiles(tensors, await this.#usableLoader.loadIndex((...batch) => addTensors(tensors, ...batch), signal));
      return tensors;
    });
  }

  /** @param {Api.CallOptions} [given] */
  warnings(given) {
    return this.#settle(async () => this.#usableLoader.warnings(options.callOptions(given).signal));
  }

  /**
   * @param {string | Api.TensorInfo} name
   * @param {Api.LoadTensorOptions} [given]
   */
  loadTensor(name, given) {
    return this.#settle(async () => {
      const checkedName = options.tensorName(name);
      const { device, usage, as, ...checked } = options.tensorOptions(given);
      if (!device) return withMethods(await this.#usableLoader.loadTensor(checkedName, { ...checked, as }));
      const stream = this.#gpuTensors([checkedName], checked.rows, false, checked.signal, { device, usage, as });
      try {
        return /** @type {any} */ (await stream.next()); // a loader without this tensor rejects
      } finally {
        stream.cancel();
      }
    });
  }

  /**
   * Tensors that are moved to a GPU one after another.
   *
   * @param {string[] | undefined} names
   * @param {[first: number, end: number] | undefined} rows
   * @param {boolean} isInOrder
   * @param {AbortSignal | undefined} signal
   * @param {Target} target
   * @returns {TensorStream}
   */
  #gpuTensors(names, rows, isInOrder, signal, target) {
    const opening = this.#usableLoader.readTensors(names, rows, isInOrder, signal);
    opening.catch(() => {}); // `next` rejects
    return {
      next: async () => {
        const reader = await opening;
        const head = await reader.next();
        return head && /** @type {any} */ (moveToGpu(reader, head, target));
      },
      // The first error has been reported, and the module that fails here has stopped already.
      cancel: () => void opening.then((reader) => reader.cancel()).catch(() => {}),
    };
  }

  /**
   * @param {Iterable<string>} names
   * @param {Api.CallOptions} [given]
   */
  prefetch(names, given) {
    const checked = options.names(names);
    const { signal } = options.callOptions(given);
    if (signal?.aborted) return;
    // The later `loadTensor` rejects.
    callModule(() => void this.#usableLoader.prefetch(checked, signal).catch(() => {}));
  }

  /**
   * @param {Api.TensorsOptions} [given]
   * @returns {any} An iterator of tensors, or of tensors on a GPU.
   */
  tensors(given) {
    /** @type {TensorStream | undefined} */
    let stream;
    let isLost = () => false;
    // Reading starts when the first tensor is requested.
    const begin = () => {
      const { names, order, signal, device, usage, as, layout } = options.tensorsOptions(given);
      isLost = () => this.#isLost;
      if (!device) return this.#usableLoader.tensors({ names, order, signal, as, layout });
      return this.#gpuTensors(names, undefined, order === "given", signal, { device, usage, as });
    };
    const next = () => this.#settle(async () => {
      stream ??= begin();
      const tensor = await (this.#usableLoader && stream.next());
      return tensor && "components" in tensor ? withMethods(tensor) : tensor;
    });
    return new TensorIterator(next, () => {
      if (!isLost()) stream?.cancel();
    });
  }

  /** @param {Api.CallOptions} [given] */
  verify(given) {
    return this.#settle(async () => this.#usableLoader.verify(options.callOptions(given).signal));
  }

  toBlob() {
    const loader = this.#usableLoader;
    const checkOpen = () => {
      if (this.#isClosed) throw closedLoader();
    };
    const openView = () =>
      this.#isClosed ? Promise.reject(closedLoader()) : this.#view ?? callModule(() => loader.openView());
    const opened = modelBlob(openView, this.#settle, checkOpen);
    opened.view.then((view) => (this.#view = view), () => {}); // the Blob reports the error
    return opened.blob;
  }

  get stats() {
    const stats = { ...callModule(() => this.#usableLoader.stats), cachePersisted: this.#isPersisted };
    return this.#workersError === undefined ? stats : { ...stats, workersError: this.#workersError };
  }

  /**
   * The names under which the files that have tensors are cached, of a loader in this thread.
   *
   * @returns {string[]}
   */
  [NAMES_IN_CACHE]() {
    return callModule(() => /** @type {Loader} */ (this.#usableLoader).namesInCache());
  }

  /** Whether what a loader in this thread downloads is cached. */
  get [IS_CACHING]() {
    return callModule(() => /** @type {Loader} */ (this.#usableLoader).isCaching);
  }

  /** @param {() => void} listener */
  [WHEN_CLOSED](listener) {
    this.#closeListeners.add(listener);
  }

  close() {
    this.#isClosed = true;
    this.#closeListeners.call();
    if (!this.#isLost) callModule(() => this.#loader.close());
  }

  [dispose]() {
    this.close();
  }
}

/**
 * @param {unknown} source
 * @param {CheckedOpenOptions} given
 */
function checkForWorker(source, { fetch, cache, cacheKey, partUrl }) {
  if (isResponse(source)) throw invalid("`inWorker` cannot be combined with a Response, which cannot be posted to one");
  if (fetch || cacheKey || partUrl || typeof cache === "object") {
    const what = "`inWorker` cannot be combined with `fetch`, `cacheKey`, a `partUrl` function or a `cache` object";
    throw invalid(`${what}, which a worker cannot call`);
  }
}

/**
 * The files of a folder by path, in Node.js and others, are no Files of the platform, and cannot be posted.
 *
 * @param {CheckedSource} source
 */
function checkPostable(source) {
  const isOnDisk = Array.isArray(source) && source.some(([file]) => "isOnDisk" in file);
  if (isOnDisk) throw invalid("`inWorker` cannot be combined with a folder. Pass the path of the file in it to open");
}

/**
 * Opens a loader in a dedicated worker. If there can be no such worker, returns the reason.
 *
 * @param {CheckedSource} source
 * @param {CheckedOpenOptions} given
 * @returns {Promise<{ loader?: ModelLoader, workersError?: string }>}
 */
async function openInWorker(source, { fetch, cache, cacheKey, partUrl, ...others }) {
  // Service workers may not import the script either, which would hide this reason.
  if (!hasWorkers()) return { workersError: "workers cannot be started: Worker is not available in this context" };
  let remote;
  try {
    remote = await import("../worker/remote.js");
  } catch (cause) {
    const reason = `weightstream.remote.js cannot be loaded: ${messageOf(cause)}. ${offlineAdvice()}`;
    return { workersError: reason.trim() };
  }
  checkAborted(others.signal);
  // `checkForWorker` has refused an object and a function.
  const plain = { ...(typeof cache === "string" && { cache }), ...(partUrl === false && { partUrl }) };
  const startWorker = () => followDeferred(newWorker());
  return remote.openRemote(startWorker, thisModule(), source, { ...others, ...plain });
}
