// @ts-check
// Where the WebAssembly module and the script of the workers come from: what `init` was given, what the entry point of
// the package has, or the files beside this one. Each is looked up only when it is needed.

/** @import { InitOptions, ModuleSource, WeightCache } from "./weightstream.js" */

/**
 * What an entry point has for its platform: the module, a worker, the storage of the cache, the URL of a text that is
 * not one, and the `fetch` for URLs that the platform does not fetch.
 *
 * @typedef {object} Parts
 * @property {() => ModuleSource | Promise<ModuleSource>} [module]
 * @property {() => Worker} [worker]
 * @property {() => WeightCache} [cache]
 * @property {(text: string) => string | undefined} [urlOf]
 * @property {(url: string) => typeof fetch | undefined} [fetchOf]
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

/**
 * The URL of a text that is not one for the platform, such as a path.
 *
 * @param {string} text
 */
export const ownUrlOf = (text) => ofEntry.urlOf?.(text);

/**
 * The options of a source that the platform does not fetch: its own `fetch`, without a cache.
 *
 * @param {unknown} source
 */
export function ownOptions(source) {
  const fetch = typeof source === "string" ? ofEntry.fetchOf?.(source) : undefined;
  return fetch && { fetch, cache: /** @type {const} */ ("none") };
}

// Bundlers detect exactly the expressions `new URL("…", import.meta.url)` in the two following functions, the second
// only as the argument of `new Worker`.

/** @returns {ModuleSource | Promise<ModuleSource>} */
export function moduleSource() {
  return ofEntry.module?.() ?? unmoved("weightstream_bg.wasm") ?? new URL("weightstream_bg.wasm", import.meta.url);
}

/** Starts a worker of the package. Throws if there can be none. */
export function newWorker() {
  if (given.worker) return given.worker();
  const url = given.workerUrl ?? (ofEntry.worker ? undefined : unmoved("weightstream.worker.js"));
  if (url) return new Worker(url, { type: "module" });
  return ofEntry.worker?.() ?? new Worker(new URL("weightstream.worker.js", import.meta.url), { type: "module" });
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
