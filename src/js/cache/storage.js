// @ts-check
// What the platform says about its storage. Everything that it does not say is undefined.
import { released } from "../module/location.js";
import { BACKGROUND_ERROR } from "./place.js";

/** @import { CheckedOpenOptions } from "../module/glue.js" */

/** How long to wait for an answer of the platform, which takes a few milliseconds. */
const ANSWER_MS = 1_000;

/**
 * The answer of the platform's storage, which may never come. Rejects then.
 *
 * @template T
 * @param {Promise<T> | undefined} answer
 * @param {number} [limitMs]
 * @returns {Promise<T>}
 */
export function answered(answer, limitMs = ANSWER_MS) {
  return new Promise((resolve, reject) => {
    const stalled = () => reject(new Error("the storage of the browser does not answer"));
    const timer = released(setTimeout(stalled, limitMs));
    Promise.resolve(/** @type {Promise<T>} */ (answer)).then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/**
 * Whether the cache of a model at a URL is exempt from eviction. Undefined if the platform does not say so, and if
 * there is no cache of the browser.
 *
 * @param {unknown} source
 * @param {CheckedOpenOptions["cache"]} cache
 * @returns {Promise<boolean | undefined>}
 */
export async function cachePersisted(source, cache) {
  if (!isCached(source, cache) || typeof cache === "object") return undefined;
  return persisted();
}

/**
 * Whether what is stored is exempt from eviction.
 *
 * @returns {Promise<boolean | undefined>}
 */
export async function persisted() {
  try {
    return await answered(globalThis.navigator?.storage?.persisted?.());
  } catch {
    return undefined; // for example in a document without an origin
  }
}

/**
 * @param {unknown} source
 * @param {CheckedOpenOptions["cache"]} cache
 */
const isCached = (source, cache) => isRemote(source) && cache !== "none";

/** @param {unknown} source */
const isRemote = (source) => typeof source === "string" && /^(https?|hf):/.test(source);

/**
 * Statistics of the module, and what only the scripts know.
 *
 * @template {{ cacheError: string | undefined }} Stats
 * @param {Stats} stats
 * @param {import("../loader/loader.js").Stored} stored
 */
export const statsOf = (stats, { cache, isPersisted, storage }) => ({
  ...stats,
  cacheError: stats.cacheError ?? cache?.[BACKGROUND_ERROR],
  cachePersisted: isPersisted,
  crossOriginStorage: storage?.stats,
});

let hasWarned = false;

/**
 * Says once in a page that models without a cache are downloaded again at each visit: the option is copied from
 * examples.
 *
 * @param {unknown} source
 * @param {CheckedOpenOptions["cache"]} cache
 */
export function warnUncached(source, cache) {
  if (hasWarned || cache !== "none" || !isRemote(source) || typeof document !== "object") return;
  hasWarned = true;
  console.warn('weightstream: with `cache: "none"`, models are downloaded again at each visit.');
}
