// @ts-check
// What is requested while the module is still loaded: the first bytes of a model, and the script of the cache's worker.
// The first use of a page then waits for fewer round trips. Where nothing is cached, it does not wait for the cache.
import { CACHE as CACHE_PART, EXTRAS } from "../module/deferred.js";
import { answered } from "../cache/storage.js";
import { ownCache } from "../module/location.js";
import { isReady, loadEarly, startEarly } from "../module/module.js";
import { textOf } from "./url.js";

/** @import { CheckedOpenOptions, CheckedSource } from "../module/glue.js" */

/** @typedef {{ source: CheckedSource, options: CheckedOpenOptions }} Ready */

/** How many bytes the module requests first of any file. */
const FIRST_READ_BYTES = 65_536;
const RANGE = `bytes=0-${FIRST_READ_BYTES - 1}`;

/** Files whose index is at their end, of which the module requests as many bytes next. */
const HAS_INDEX_AT_END = /\.zt$/i;
const END_RANGE = `bytes=-${FIRST_READ_BYTES}`;
/** The length of the file, which the fragment of its URL may state. */
const LENGTH = /^#length=(\d{1,15})$/;

/** The folder of the cache in the origin private file system, and its database in IndexedDB. */
const CACHE = "weightstream";

/** How long a page holds the lock of a download at most before its cache is open. */
const LOCK_MS = 10_000;

/** Addresses on the usual hub, and URLs of its files. */
const HUB = /^(hf:|https:\/\/huggingface\.co\/)/i;

/** Whether the storage was found to have a cache, or has one since a model was opened. */
let mayBeCached = false;

/** Requests for the head and the end, which the module's own requests then use. Until then, `end` aborts them. */
export class EarlyHead {
  /** Releases the lock of the download, which the module does otherwise. */
  #releaseLock = () => {};
  #hasFailed = false;
  #controller = new AbortController();
  /** @type {Promise<Response> | undefined} */
  #response;
  #endController = new AbortController();
  /** @type {Promise<Response> | undefined} */
  #endResponse;

  /**
   * Prepares for the cache while the module is loaded. If nothing is cached, says so to the module, which then opens
   * the cache after it has requested the model.
   *
   * @param {Ready} ready
   * @returns {Promise<Ready>}
   */
  async withCacheToCome(ready) {
    const { source, options } = ready;
    const { cache, cacheKey, headers, credentials } = options;
    if (typeof source !== "string" || cache === "none" || mayBeCached || !(await isUncached(cache))) {
      return withEarlyCache(ready);
    }
    const releaseLock = await answered(lockOf(source)).catch(() => undefined);
    mayBeCached = true;
    if (releaseLock) this.#releaseLock = releaseLock;
    if (this.#hasFailed) releaseLock?.();
    // Names of the caller, and those of private files, need the code of the cache.
    if (!releaseLock || cacheKey || headers?.length || credentials === "include") withEarlyCache(ready);
    else if (HUB.test(source)) loadEarly(EXTRAS);
    return { source, options: { ...options, releaseLock } };
  }

  /**
   * Sends the requests if the module is not ready yet and the model is not cached. Returns the source and the options
   * with which the module uses the responses.
   *
   * @param {unknown} given The source as the caller passed it.
   * @param {Ready} ready
   * @returns {Ready}
   */
  request(given, ready) {
    const { source: url, options } = ready;
    // On a hub, another URL is requested: that of a commit.
    const isUrl = textOf(given) !== undefined && typeof url === "string" && /^https?:(?!.*\/resolve\/)/.test(url);
    const { cache, releaseLock, fetch: own, headers = [], credentials, crossOriginStorage } = options;
    if (isReady() || !isUrl || crossOriginStorage || (cache !== "none" && !releaseLock)) return ready;
    const fetch = own ?? ((/** @type {any} */ input, init) => globalThis.fetch(input, init));
    const begin = (/** @type {string} */ range, /** @type {AbortController} */ { signal }) => {
      const how = { headers: new Headers([...headers, ["Range", range]]), ...(credentials && { credentials }) };
      const response = start(fetch, url, { ...how, cache: "no-store", signal });
      response.catch(() => {}); // the module's request rejects, or the module has not started
      return response;
    };
    this.#response = begin(RANGE, this.#controller);
    const end = endRangeOf(new URL(url));
    if (!own && end) {
      this.#endResponse = begin(end, this.#endController);
      const isPart = (/** @type {Response} */ { status }) => status === 206 || this.#endController.abort();
      this.#endResponse.then(isPart, () => {});
    }
    const taking = async (/** @type {any} */ input, /** @type {RequestInit | undefined} */ init) =>
      (input === url && (await this.#taken(init))) || fetch(input, init);
    return { source: url, options: { ...options, fetch: taking } };
  }

  /**
   * The response to the same request, if there is one.
   *
   * @param {RequestInit | undefined} init
   */
  async #taken(init) {
    const range = new Headers(init?.headers).get("Range") ?? "";
    if (this.#response && range === RANGE) {
      const response = this.#response;
      this.#response = undefined;
      follow(this.#controller, init?.signal);
      return response;
    }
    const [first = NaN, last = NaN] = range.match(/\d+/g)?.map(Number) ?? [];
    if (!this.#endResponse || last - first !== FIRST_READ_BYTES - 1) return undefined;
    const ending = this.#endResponse;
    this.#endResponse = undefined;
    follow(this.#endController, init?.signal);
    const response = await ending.catch(() => undefined);
    if (response?.headers.get("Content-Range")?.startsWith(`bytes ${first}-${last}/`)) return response;
    this.#endController.abort();
    return undefined;
  }

  /** Releases what the module did not take over, because the model cannot be opened. */
  fail() {
    this.#hasFailed = true;
    this.#releaseLock();
  }

  /** Aborts the requests that the module did not use. */
  end() {
    if (this.#response) this.#controller.abort();
    if (this.#endResponse) this.#endController.abort();
    this.#response = this.#endResponse = undefined;
  }
}

/**
 * The range of the end of a file whose index is there. Of another origin, a range without a start would need a
 * preflight request.
 *
 * @param {URL} url
 */
function endRangeOf({ origin, pathname, hash }) {
  if (!HAS_INDEX_AT_END.test(pathname)) return undefined;
  const length = Number(LENGTH.exec(hash)?.[1] ?? 0);
  if (length > 2 * FIRST_READ_BYTES) return `bytes=${length - FIRST_READ_BYTES}-${length - 1}`;
  return origin === globalThis.origin ? END_RANGE : undefined;
}

/**
 * Aborts a request with a signal.
 *
 * @param {AbortController} controller
 * @param {AbortSignal | null | undefined} signal
 */
function follow(controller, signal) {
  const abort = () => controller.abort(signal?.reason);
  if (signal?.aborted) abort();
  signal?.addEventListener("abort", abort);
}

/**
 * Loads the parts of the module that it will need, and starts the worker of the cache, while its main part is loaded.
 *
 * @template {{ source: CheckedSource, options: Pick<CheckedOpenOptions, "cache"> }} T
 * @param {T} ready
 */
export function withEarlyCache(ready) {
  const { source, options: { cache = "auto" } } = ready;
  const isInWorker = (cache === "auto" && !ownCache()) || cache === "opfs";
  if (typeof source === "string" && cache !== "none" && !ownCache()) loadEarly(CACHE_PART);
  if (Array.isArray(source) || (typeof source === "string" && HUB.test(source))) loadEarly(EXTRAS);
  if (typeof source === "string" && isInWorker && "Worker" in globalThis) startEarly();
  return ready;
}

/** @type {(fetch: typeof globalThis.fetch, url: string, init: RequestInit) => Promise<Response>} */
const start = async (fetch, url, init) => fetch(url, init);

/**
 * Whether nothing is cached: only the module knows what a cache contains.
 *
 * @param {CheckedOpenOptions["cache"]} cache
 */
async function isUncached(cache) {
  if (typeof cache === "object" || ownCache()) return false;
  const found = await answered(Promise.all([hasFolder(), hasDatabase()])).catch(() => [true]); // if unknown, it may be
  return !found.includes(true);
}

/**
 * Gets the lock of the download of a file, for which the cache asks otherwise: other pages then wait for the bytes that
 * this one caches. Resolves to the function that releases it, or to undefined if another page has it.
 *
 * @param {string} url
 * @returns {Promise<(() => void) | undefined>}
 */
const lockOf = (url) => new Promise((resolve) => {
  /** @param {unknown} lock */
  const hold = (lock) => lock && new Promise((release) => {
    const releaseLock = () => release(undefined);
    setTimeout(releaseLock, LOCK_MS);
    resolve(releaseLock);
  });
  const asked = navigator.locks?.request(`weightstream load ${url.replace(/#.*/s, "")}`, { ifAvailable: true }, hold);
  (asked ?? Promise.reject()).then(() => resolve(undefined), () => resolve(() => {}));
});

async function hasFolder() {
  if (!navigator.storage?.getDirectory) return false;
  const root = await navigator.storage.getDirectory();
  const opening = root.getDirectoryHandle(CACHE).then(() => true);
  return opening.catch((error) => {
    if (error.name === "NotFoundError") return false;
    throw error;
  });
}

const hasDatabase = async () => (await indexedDB.databases()).some(({ name }) => name === CACHE);
