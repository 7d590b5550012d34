// @ts-check
// An open model. It checks options and decides in which thread the loader of the module runs.
import { Loader } from "../module/glue.js";
import { checkAborted, untilAborted } from "./abort.js";
import { CloseListeners, WHEN_CLOSED } from "./closing.js";
import { MAKE, closedLoader, fail } from "./error.js";
import { EarlyHead, withEarlyCache } from "../source/head.js";
import { TensorIterator } from "./iterator.js";
import { addFiles, addItems, addTensors } from "./list.js";
import { BLAKE3 } from "../module/deferred.js";
import { laterScript } from "../module/later.js";
import { holding } from "../module/location.js";
import { callModule, crash, dispose, init, instance, loadEarly, settle } from "../module/module.js";
import * as options from "../options/options.js";
import { numbered } from "./progress.js";
import { prepared, sharedStorage, withSignature } from "../source/source.js";
import { cachePersisted, statsOf, warnUncached } from "../cache/storage.js";
import { withMethods } from "./tensor.js";
import { checkForWorker, checkPostable, openInWorker } from "../worker/in_worker.js";
import { modelBlob } from "./view.js";

/** @import * as Api from "../weightstream.js" */
/** @import { CheckedOpenOptions, CheckedSource, ModelLoader, ModelView, TensorStream } from "../module/glue.js" */
/** @import { Settle } from "../module/module.js" */
/** @import { Target } from "../gpu/gpu.js" */

/** @typedef {NonNullable<Awaited<ReturnType<typeof sharedStorage>>>} Storage */
/**
 * Where files are stored: the checked option `cache`, whether that is persistent, and Cross-Origin Storage.
 *
 * @typedef {{ cache?: any, isPersisted?: boolean | undefined, storage?: Storage | undefined }} Stored
 */

export const NAMES_IN_CACHE = Symbol("namesInCache");
export const IS_CACHING = Symbol("isCaching");

/** Tensors in pieces, for the options `device` and `onChunk`. */
export const piecesScript = laterScript("weightstream.pieces.js", () => import("./pieces.js"));

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
  #storing;

  /**
   * @param {symbol} make
   * @param {ModelLoader} loader
   * @param {{ settle?: Settle, workersError?: string | undefined } & Stored} [how]
   */
  constructor(make, loader, { settle: settleCall = settle, workersError, ...storing } = {}) {
    if (make !== MAKE) throw new TypeError("Use StreamingLoader.open().");
    this.#loader = loader;
    this.#settle = settleCall;
    this.#workersError = workersError;
    this.#storing = storing;
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
      const starting = init(); // first, because the module takes longest
      const preparing = prepared(source, checked).then(async (ready) => {
        if (inWorker) return ready;
        if (checked.signature !== undefined) {
          loadEarly(BLAKE3);
          return withEarlyCache(ready); // whole files are requested first
        }
        return head.request(source, await head.withCacheToCome(ready));
      });
      const [unsigned] = await Promise.all([preparing, starting]);
      checkAborted(signal);
      if (inWorker) [unsigned, ...(unsigned.options.adapters ?? [])].forEach(({ source }) => checkPostable(source));
      const ready = await withSignature(unsigned, source);
      const { signature, adapters } = ready.options;
      return StreamingLoader.#openReady(ready, inWorker ? { ...checked, signature, adapters } : undefined);
    };
    try {
      return await untilAborted(signal, opening, (loader) => loader.close());
    } catch (error) {
      head.fail();
      throw error;
    } finally {
      head.end();
    }
  }

  /**
   * @param {{ source: CheckedSource, options: CheckedOpenOptions }} ready
   * @param {CheckedOpenOptions} [inWorker] The options for a loader in a worker.
   */
  static async #openReady({ source, options: checked }, inWorker) {
    warnUncached(source, checked.cache);
    const isPersisted = cachePersisted(source, checked.cache);
    const storage = await sharedStorage(checked);
    const remote = inWorker ? await holding(() => openInWorker(source, inWorker, storage)) : {};
    const shared = { ...checked, crossOriginStorage: storage?.access };
    const loader = remote.loader ?? (await settle(() => Loader.open(source, shared)));
    const { workersError } = remote;
    const how = { workersError, cache: checked.cache, isPersisted: await isPersisted, storage };
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
      const { device, usage, as, onChunk, ...checked } = options.tensorOptions(given);
      if (!device && !onChunk) {
        return withMethods(await this.#usableLoader.loadTensor(checkedName, { ...checked, as }));
      }
      const { rows, signal } = checked;
      const loading = piecesScript.load();
      loading.catch(() => {}); // reported below
      const reader = await this.#usableLoader.readTensors([checkedName], rows, false, true, as, signal);
      try {
        const { loadInChunks, nextOnGpu } = await loading;
        if (!onChunk) return /** @type {any} */ (await nextOnGpu(reader, { device, usage, as })); // or it rejects
        const load = (/** @type {Promise<never>} */ stopped) => loadInChunks(reader, onChunk, stopped);
        return /** @type {any} */ (withMethods(await this.#untilStopped(signal, load)));
      } catch (error) {
        if (!signal?.aborted && !this.#isClosed) reader.fail();
        throw error;
      } finally {
        reader.cancel();
      }
    });
  }

  /**
   * Runs work that may wait for the caller, with a promise that rejects when the signal aborts or the loader is closed.
   *
   * @template T
   * @param {AbortSignal | undefined} signal
   * @param {(stopped: Promise<never>) => Promise<T>} work
   */
  async #untilStopped(signal, work) {
    /** @type {(reason: unknown) => void} */
    let stop = () => {};
    /** @type {Promise<never>} */
    const stopped = new Promise((_, reject) => (stop = reject));
    stopped.catch(() => {}); // the work may have ended
    const abort = () => stop(signal?.reason);
    signal?.addEventListener("abort", abort);
    const forget = this.#closeListeners.add(() => stop(closedLoader()));
    try {
      return await work(stopped);
    } finally {
      signal?.removeEventListener("abort", abort);
      forget();
    }
  }

  /**
   * Tensors that are moved to a GPU one after another.
   *
   * @param {string[] | undefined} names
   * @param {boolean} isInOrder
   * @param {AbortSignal | undefined} signal
   * @param {Target} target
   * @returns {TensorStream}
   */
  #gpuTensors(names, isInOrder, signal, target) {
    const opening = this.#usableLoader.readTensors(names, undefined, isInOrder, false, target.as, signal);
    const loading = piecesScript.load();
    for (const promise of [opening, loading]) promise.catch(() => {}); // `next` rejects
    return {
      next: async () => /** @type {any} */ ((await loading).nextOnGpu(await opening, target)),
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
      return this.#gpuTensors(names, order === "given", signal, { device, usage, as });
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
    const stats = statsOf(callModule(() => this.#usableLoader.stats), this.#storing);
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
