// @ts-check
// What is requested while the module is still loaded: the first bytes of a model, and the script of the cache's worker.
// The first use of a page then waits for fewer round trips.
import { CACHE as CACHE_PART, EXTRAS } from "../module/deferred.js";
import { ownCache } from "../module/location.js";
import { isReady, loadEarly, startEarly } from "../module/module.js";
import { textOf } from "./url.js";

/** @import { CheckedOpenOptions, CheckedSource } from "../module/glue.js" */

/** @typedef {{ source: CheckedSource, options: CheckedOpenOptions }} Ready */

/** How many bytes the module requests first of any file. */
const FIRST_READ_BYTES = 65_536;
const RANGE = `bytes=0-${FIRST_READ_BYTES - 1}`;

/** The folder of the cache in the origin private file system, and its database in IndexedDB. */
const CACHE = "weightstream";

/** Addresses on the usual hub, and URLs of its files. */
const HUB = /^(hf:|https:\/\/huggingface\.co\/)/i;

/** A request for the head, which the module's own request then uses. Until then, `end` aborts it. */
export class EarlyHead {
  #controller = new AbortController();
  /** Whether the module has sent a request, or the model is open. */
  #isEnded = false;
  /** @type {Promise<Response> | undefined} */
  #response;

  /**
   * Sends the request if the module is not ready yet, and once the storage says that nothing is cached, unless the
   * module sends its own before. Then the model also arrives while the worker of the cache starts. Returns the source
   * and the options with which the module uses the response.
   *
   * @param {unknown} given The source as the caller passed it.
   * @param {Ready} ready
   * @returns {Ready}
   */
  request(given, ready) {
    const { source: url, options } = ready;
    // On a hub, another URL is requested: that of a commit.
    const isUrl = textOf(given) !== undefined && typeof url === "string" && /^https?:(?!.*\/resolve\/)/.test(url);
    if (isReady() || !isUrl) return ready;
    const { fetch: own, headers = [], credentials } = options;
    const fetch = own ?? ((/** @type {any} */ input, init) => globalThis.fetch(input, init));
    void isUncached(options.cache).then((isUncached) => {
      if (!isUncached || this.#isEnded) return;
      const response = (this.#response = start(fetch, url, {
        headers: new Headers([...headers, ["Range", RANGE]]),
        ...(credentials && { credentials }),
        cache: "no-store",
        signal: this.#controller.signal,
      }));
      response.catch(() => {}); // the module's request rejects, or the module has not started
    });
    const taking = (/** @type {any} */ input, /** @type {RequestInit | undefined} */ init) =>
      this.#taken(url, input, init) ?? fetch(input, init);
    return { source: url, options: { ...options, fetch: taking } };
  }

  /** @type {(url: string, input: unknown, init: RequestInit | undefined) => Promise<Response> | undefined} */
  #taken(url, input, init) {
    const { headers, signal } = init ?? {};
    this.#isEnded = true;
    if (!this.#response || input !== url || new Headers(headers).get("Range") !== RANGE) return undefined;
    const response = this.#response;
    this.#response = undefined;
    const abort = () => this.#controller.abort(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort);
    return response;
  }

  /** Aborts the request if the module did not use it. */
  end() {
    this.#isEnded = true;
    if (this.#response) this.#controller.abort();
    this.#response = undefined;
  }
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
  if (cache === "none") return true;
  if (typeof cache === "object" || ownCache()) return false;
  const found = await Promise.all([hasFolder(), hasDatabase()]).catch(() => [true]); // if that is unknown, it may be
  return !found.includes(true);
}

async function hasFolder() {
  const root = await navigator.storage.getDirectory();
  const opening = root.getDirectoryHandle(CACHE).then(() => true);
  return opening.catch((error) => {
    if (error.name === "NotFoundError") return false;
    throw error;
  });
}

const hasDatabase = async () => (await indexedDB.databases()).some(({ name }) => name === CACHE);
