// @ts-check
// A worker of the package: one that reads and writes the cache, one that decodes and computes digests, or one that runs
// a whole loader. The page sends it the module that the page itself runs.
import {
  Failure,
  Loader,
  cacheSettled,
  initSync,
  onCrash,
  serveCache,
  serveJobs,
  setCache,
  setWorkers,
  thisModule,
} from "../module/glue.js";
import {
  CACHE, attachLoaded, followDeferred, isLoaded, offerDeferred, prepareDeferred, unfollowDeferred,
} from "../module/deferred.js";
import { crashFields, recordPanic, whenCrashed } from "../module/guard.js";
import { startWorker } from "../module/policy.js";
import { ownCache, ownOptions } from "../module/location.js";

/** @import { Tensor } from "../weightstream.js" */
/** @import { AddItems, AddTensors, ErrorFields, ModelView, TensorReader, ViewReader } from "../module/glue.js" */
/**
 * @import {
 *   AbortMessage, CallMessage, CreditMessage, RemoteMethods, ReplyMessage, RequestMessage, StartMessage, WorkerRole,
 * } from "./messages.js"
 */

const scope = /** @type {DedicatedWorkerGlobalScope} */ (/** @type {unknown} */ (globalThis));

// Comes before, and is hidden from, the listeners that the module sets. Node.js, which has no such method, runs the
// whole module.
scope.addEventListener?.("message", (event) => {
  if (!event.data.deferred) return;
  event.stopImmediatePropagation();
  offerDeferred(event.data.deferred);
  attachLoaded();
});

scope.onmessage = ({ data }) => {
  const [module, role] = /** @type {StartMessage} */ (data);
  initSync({ module });
  onCrash(recordPanic);
  prepareDeferred();
  attachLoaded();
  whenCrashed(({ what }) => throwLater(what));
  ({ cache: serveCache, jobs: serveJobs, loader: serveLoader })[role]();
};

// For example of a module that this worker may not have.
scope.onmessageerror = () => throwLater("a message cannot be read here");

/**
 * Reports an error to the `onerror` of the page.
 *
 * @param {string} what
 */
function throwLater(what) {
  setTimeout(() => {
    throw new Error(what);
  });
}

// The maximum number of bytes of tensors that are in transit to the page or wait there.
const MAX_IN_TRANSIT_BYTES = 8 << 20;

// How often the page gets new statistics while a call runs.
const STATS_INTERVAL_MS = 50;

/**
 * A call of the page that runs here.
 *
 * @typedef {object} Call
 * @property {number} number
 * @property {AbortController} controller
 * @property {number} inTransitBytes
 * @property {() => void} [resume]
 */

/**
 * A method that the page calls. It returns the last reply and what is transferred with it.
 *
 * @template {keyof RemoteMethods} Name
 * @typedef {(call: Call, ...args: Parameters<RemoteMethods[Name]>) => Promise<[ReplyMessage, Transferable[]?] | void>}
 * Method
 */

/** Runs a loader for the page. The page's end is in remote.js. */
function serveLoader() {
  /** @type {Map<number, Call>} */
  const calls = new Map();
  /** @type {Loader | undefined} */
  let loader;
  /** @type {ModelView | undefined} */
  let view;
  /** @type {Map<number, ViewReader | TensorReader | Promise<ViewReader>>} */
  const readers = new Map();
  let isCached = false;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let statsTimer;
  let hasCrashed = false;

  whenCrashed((end) => {
    hasCrashed = true;
    clearInterval(statsTimer);
    const { cause, ...fields } = crashFields(end, "weightstream in its worker", "the loader");
    scope.postMessage({ crash: fields });
  });
  setWorkers(startNestedWorker, (worker) => {
    worker.terminate();
    unfollowDeferred(worker);
  });
  const cache = ownCache();
  if (cache) setCache(cache);

  scope.onmessage = ({ data }) => {
    const message = /** @type {RequestMessage} */ (data);
    if ("isClosed" in message) close();
    else if ("method" in message) run(message);
    else control(message);
  };
  scope.postMessage({ hasStarted: true });

  /** @param {CallMessage} message */
  async function run({ number, method, args }) {
    /** @type {Call} */
    const call = { number, controller: new AbortController(), inTransitBytes: 0 };
    calls.set(number, call);
    statsTimer ??= setInterval(() => reply(), STATS_INTERVAL_MS);
    try {
      const runMethod = /** @type {(call: Call, ...args: unknown[]) => ReturnType<Method<"open">>} */ (methods[method]);
      const [result, transferred] = (await runMethod(call, ...args)) ?? [];
      reply({ number, ...result, isDone: true }, transferred);
    } catch (error) {
      reply({ number, failure: fieldsOf(error) });
    } finally {
      calls.delete(number);
      if (calls.size === 0) {
        clearInterval(statsTimer);
        statsTimer = undefined;
      }
    }
  }

  /** @param {AbortMessage | CreditMessage} message */
  function control(message) {
    const call = calls.get(message.number);
    if (!call) return;
    if ("isStopped" in message) call.controller.abort();
    else call.inTransitBytes -= message.takenBytes;
    call.resume?.();
  }

  /** @type {{ [Name in keyof RemoteMethods]: Method<Name> }} */
  const methods = {
    async open({ controller }, source, { onProgress, crossOriginStorage: storage, ...given }) {
      const options = { ...ownOptions(source), ...given };
      isCached = options.cache !== "none";
      loader = await Loader.open(source, {
        ...options,
        signal: controller.signal,
        crossOriginStorage: storage && { ...storage, call: callsThrough(storage.port) },
        onProgress: onProgress ? (progress) => reply({ progress }) : undefined,
      });
    },

    // The pieces belong to arrays of the metadata. In one message with it, they stay the same arrays.
    async loadMetadata({ controller }) {
      /** @type {Parameters<AddItems>[]} */
      const pieces = [];
      const value = await opened().loadMetadata((...piece) => pieces.push(piece), controller.signal);
      return [{ value, pieces }];
    },

    async loadIndex({ number, controller }) {
      const add = (/** @type {Parameters<AddTensors>} */ ...piece) => scope.postMessage({ number, pieces: [piece] });
      return [{ value: await opened().loadIndex(add, controller.signal) }];
    },

    async warnings({ controller }) {
      return [{ value: await opened().warnings(controller.signal) }];
    },

    async loadTensor({ controller }, name, options) {
      const value = await opened().loadTensor(name, { ...options, signal: controller.signal });
      return [{ value }, buffersOf(value)];
    },

    async tensors(call, options) {
      const { signal } = call.controller;
      const stream = opened().tensors({ ...options, signal });
      for (let tensor; (tensor = await stream.next()); ) {
        const buffers = buffersOf(tensor);
        const byteLength = buffers.reduce((sum, buffer) => sum + buffer.byteLength, 0);
        call.inTransitBytes += byteLength;
        reply({ number: call.number, tensor: { tensor, byteLength } }, buffers);
        while (call.inTransitBytes > MAX_IN_TRANSIT_BYTES && !signal.aborted) {
          await new Promise((resolve) => (call.resume = () => resolve(undefined)));
        }
      }
    },

    async prefetch({ controller }, names) {
      await opened().prefetch(names, controller.signal).catch(() => {}); // the later `loadTensor` rejects
    },

    async verify({ controller }) {
      return [{ value: await opened().verify(controller.signal) }];
    },

    async openView() {
      view = await opened().openView();
      return [{ value: view.byteLength }];
    },

    async hasFileChecks() {
      return [{ value: (await view?.hasFileChecks()) ?? false }];
    },

    async readView(_, number, [start, end]) {
      const reading = view?.read(start, end);
      if (!reading) return;
      readers.set(number, reading);
      await reading;
    },

    async readTensors({ controller }, number, names, rows, isInOrder, isOne, as) {
      readers.set(number, await opened().readTensors(names, rows, isInOrder, isOne, as, controller.signal));
    },

    async callReader({ controller }, number, method, length = 0, piece) {
      const reader = await readers.get(number);
      if (method === "cancel" || method === "fail") {
        if (method === "fail" && reader && "fail" in reader) reader.fail();
        reader?.cancel();
        readers.delete(number);
        return;
      }
      if (!reader) throw new Error("the reader does not exist");
      controller.signal.addEventListener("abort", () => reader.cancel());
      if (method !== "fill") return [{ value: await /** @type {any} */ (reader)[method]() }];
      const bytes = await reader.fill(length);
      const value = "next" in reader ? copyOf(bytes, piece) : bytes; // a TensorReader overwrites its buffer
      return [{ value }, [value.buffer]];
    },
  };

  // The page calls no other method before `open` has resolved.
  function opened() {
    if (!loader) throw new Error("the loader is not open");
    return loader;
  }

  /**
   * @param {ReplyMessage} [message]
   * @param {Transferable[]} [transferred]
   */
  function reply(message = {}, transferred = []) {
    if (!hasCrashed) scope.postMessage({ ...message, stats: loader?.stats }, transferred);
  }

  async function close() {
    for (const call of calls.values()) {
      call.controller.abort();
      call.resume?.();
    }
    if (hasCrashed) return;
    loader?.close();
    loader = view = undefined;
    readers.clear();
    await new Promise((resolve) => setTimeout(resolve)); // what was aborted reports its end
    if (isCached && isLoaded(CACHE)) await cacheSettled().catch(() => {});
    scope.postMessage({ hasEnded: true });
  }
}

/**
 * A function that the page runs. See `port` in `cross_origin_storage.js`.
 *
 * @param {MessagePort} port
 */
function callsThrough(port) {
  /** @type {((value: any) => void)[]} */
  const replies = [];
  port.onmessage = ({ data: [number, value] }) => {
    replies[number]?.(value);
    delete replies[number];
  };
  return (/** @type {any[]} */ ...args) =>
    new Promise((resolve) => port.postMessage([replies.push(resolve) - 1, ...args]));
}

/**
 * Starts this script again, as the same kind of script: a bundler may have changed the kind. Its URL is not written
 * here, because bundlers would report a circular dependency.
 *
 * @param {WorkerRole} role
 */
function startNestedWorker(role) {
  const worker = startWorker(location.href, isClassic() ? undefined : { type: "module" });
  // Its errors are handled by the code that started it. An event that is not canceled would go on to the page, as if
  // this worker had failed.
  worker.addEventListener("error", (event) => event.preventDefault());
  followDeferred(worker).postMessage([thisModule(), role]);
  return worker;
}

/**
 * Only a classic worker may import scripts. Others throw a TypeError, in Firefox only if there is a script to import. A
 * Content-Security-Policy that forbids the script causes another error.
 */
function isClassic() {
  try {
    importScripts("data:text/javascript,");
    return true;
  } catch (error) {
    return !(error instanceof TypeError);
  }
}

/**
 * The fields of the `LoadError` that the page creates.
 *
 * @param {unknown} error
 * @returns {ErrorFields}
 */
function fieldsOf(error) {
  if (!(error instanceof Failure)) return { code: "INTERNAL", message: String(error) };
  const { message, code, url, tensor, range, status, cause } = error;
  error.free();
  return { message, code, url, tensor, range, status, cause: cloneable(cause) };
}

/** @param {unknown} cause */
function cloneable(cause) {
  try {
    return structuredClone(cause);
  } catch {
    return new Error(String(cause));
  }
}

/**
 * The buffers of a tensor that can be transferred. Shared buffers cannot, and need not.
 *
 * @param {Tensor} tensor
 */
function buffersOf({ components }) {
  const buffers = Array.from(components.values(), ({ data }) => data.buffer);
  return Array.from(new Set(buffers)).filter((buffer) => buffer instanceof ArrayBuffer);
}

/**
 * A copy, in the given memory if it is large enough.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {ArrayBuffer | undefined} memory
 */
function copyOf(bytes, memory) {
  if (!memory || memory.byteLength < bytes.length) return bytes.slice();
  const copy = new Uint8Array(memory, 0, bytes.length);
  copy.set(bytes);
  return copy;
}
