// @ts-check
// Where the WebAssembly module and the script of the workers come from: what `init` was given, what the entry point of
// the package has, or the files beside this one. Each is looked up only when it is needed.

import { startWorker } from "./policy.js";

/** @import { InitOptions, ModuleSource, WeightCache } from "../weightstream.js" */
/** @import { ErrorFields, FolderHandle, PackageWorker } from "./glue.js" */

/**
 * Platform adapter: what Node.js or the inline build supplies instead of browser defaults. The module, a worker (with
 * its own script or the given one), the storage of the cache, a check of its settings and the space for it, the `file:`
 * URL of a path, the folder at such a URL, a `fetch` for such URLs, what its errors mean, and how to keep the process
 * running.
 *
 * @typedef {object} Parts
 * @property {() => ModuleSource | Promise<ModuleSource>} [module]
 * @property {(url?: string | URL) => PackageWorker} [worker]
 * @property {() => WeightCache} [cache]
 * @property {() => void} [checkCache]
 * @property {() => Promise<Space>} [space]
 * @property {(text: string, isPath: boolean | undefined) => string | undefined} [urlOf]
 * @property {(url: string) => FolderHandle | undefined} [folderOf]
 * @property {(url: string) => typeof fetch | undefined} [fetchOf]
 * @property {(error: ErrorFields) => ErrorFields} [explain]
 * @property {() => () => void} [hold]
 */

/**
 * The bytes of storage and memory that are available, as far as the platform says. `isMemoryCapped` is whether there
 * may be more memory.
 *
 * @typedef {{ storage?: number | undefined, memory?: number | undefined, isMemoryCapped?: boolean }} Space
 */

/** @type {Parts} */
let ofEntry = {};
/** @type {Pick<InitOptions, "worker" | "workerUrl">} */
let given = {};

/**
 * Sets what an entry point has itself.
 *
 * @param {Parts} parts
 */
export function setParts(parts) {
  ofEntry = parts;
}

/**
 * Sets what `init` was given. A later call changes only what it contains.
 *
 * @param {Pick<InitOptions, "worker" | "workerUrl">} workers
 */
export function setWorkerOptions({ worker, workerUrl }) {
  if (worker ?? workerUrl) given = { worker, workerUrl };
}

/** @type {WeightCache | undefined} */
let cache;

/** The storage of the entry point. */
export const ownCache = () => (cache ??= ofEntry.cache?.());

/** Throws if the storage of the entry point has invalid settings. */
export const checkOwnCache = () => ofEntry.checkCache?.();

/** The space of the platform of the entry point, if it is no browser. */
export const platformSpace = () => ofEntry.space?.();

/**
 * Converts a file-system path to a `file:` URL. `isPath` is undefined for a text that looks like a mistyped URL, but
 * may be the path of a file.
 *
 * @param {string} text
 * @param {boolean | undefined} isPath
 */
export const ownUrlOf = (text, isPath) => ofEntry.urlOf?.(text, isPath);

/**
 * The folder at a URL, if the platform has folders.
 *
 * @param {string} url
 */
export const ownFolderOf = (url) => ofEntry.folderOf?.(url);

/**
 * The options of a source that the platform does not fetch: its own `fetch`, without a cache.
 *
 * @param {unknown} source
 */
export function ownOptions(source) {
  const fetch = typeof source === "string" ? ofEntry.fetchOf?.(source) : undefined;
  return fetch && { fetch, cache: /** @type {const} */ ("none") };
}

/**
 * An error as the platform explains it.
 *
 * @param {ErrorFields} error
 */
export const explained = (error) => ofEntry.explain?.(error) ?? error;

/**
 * A timer that does not keep the process running.
 *
 * @param {ReturnType<typeof setTimeout>} timer
 */
export function released(timer) {
  if (typeof timer === "object") /** @type {any} */ (timer).unref();
  else /** @type {any} */ (globalThis).Deno?.unrefTimer(timer);
  return timer;
}

/** Keeps the process running until the returned function is called. */
export const hold = () => ofEntry.hold?.() ?? (() => {});

/**
 * Keeps the process running while a call is pending.
 *
 * @template T
 * @param {() => Promise<T>} call
 */
export async function holding(call) {
  const release = hold();
  try {
    return await call();
  } finally {
    release();
  }
}

// Bundlers detect exactly the expressions `new URL("…", import.meta.url)` in the following functions.

/** @returns {ModuleSource | Promise<ModuleSource>} */
export function moduleSource() {
  return ofEntry.module?.() ?? unmoved("weightstream_main.wasm") ?? new URL("weightstream_main.wasm", import.meta.url);
}

/** The URLs of the parts of the module that {@link moduleSource} does not have. */
export function deferredSources() {
  if (ofEntry.module) return []; // that of the entry point has all parts
  return [
    String(unmoved("weightstream_deferred.wasm") ?? new URL("weightstream_deferred.wasm", import.meta.url)),
    String(unmoved("weightstream_cache.wasm") ?? new URL("weightstream_cache.wasm", import.meta.url)),
    String(unmoved("weightstream_extras.wasm") ?? new URL("weightstream_extras.wasm", import.meta.url)),
    String(unmoved("weightstream_manifests.wasm") ?? new URL("weightstream_manifests.wasm", import.meta.url)),
    String(unmoved("weightstream_workers.wasm") ?? new URL("weightstream_workers.wasm", import.meta.url)),
    String(unmoved("weightstream_calls.wasm") ?? new URL("weightstream_calls.wasm", import.meta.url)),
    String(unmoved("weightstream_databases.wasm") ?? new URL("weightstream_databases.wasm", import.meta.url)),
    String(unmoved("weightstream_containers.wasm") ?? new URL("weightstream_containers.wasm", import.meta.url)),
    String(unmoved("weightstream_quantization.wasm") ?? new URL("weightstream_quantization.wasm", import.meta.url)),
    String(unmoved("weightstream_blake3.wasm") ?? new URL("weightstream_blake3.wasm", import.meta.url)),
    String(unmoved("weightstream_cached.wasm") ?? new URL("weightstream_cached.wasm", import.meta.url)),
    String(unmoved("weightstream_mirrors.wasm") ?? new URL("weightstream_mirrors.wasm", import.meta.url)),
  ];
}

/** Whether workers can exist here. Service workers, for example, have none. */
export const hasWorkers = () => Boolean(given.worker ?? ofEntry.worker ?? globalThis.Worker);

/**
 * Starts a worker of the package. Throws if there can be none.
 *
 * @returns {PackageWorker}
 */
export function newWorker() {
  if (given.worker) return given.worker();
  if (ofEntry.worker) return ofEntry.worker(given.workerUrl);
  if (!hasWorkers()) throw new Error("Worker is not available in this context");
  return startWorker(workerSource(), { type: "module" });
}

const workerSource = () =>
  given.workerUrl ?? unmoved("weightstream.worker.js") ?? new URL("weightstream.worker.js", import.meta.url);

/** The URLs of the files that a page may need later: the script of its workers and the other parts of the module. */
export function laterSources() {
  if (ofEntry.module) return []; // the entry point contains them
  return [...(given.worker ? [] : [String(workerSource())]), ...deferredSources()];
}

/**
 * The URL of a file of the package if the development server of Vite 5 to 7 has moved this script, as a part of a
 * larger one, into its own folder. The other files stay where they are.
 *
 * @param {string} name
 */
function unmoved(name) {
  const [, modules] = /^(.*\/node_modules\/)\.vite\/deps[^/]*\//.exec(String(import.meta.url)) ?? [];
  return modules && new URL(`${modules}weightstream/${name}`);
}
