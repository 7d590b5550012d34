// @ts-check
// Whether a model fits into the storage and the memory of the platform.
import { cacheList } from "../module/glue.js";
import { invalid } from "../loader/error.js";
import { IS_CACHING, NAMES_IN_CACHE, StreamingLoader } from "../loader/loader.js";
import { settle } from "../module/module.js";
import { openOptions } from "../options/options.js";
import { isResponse } from "../source/once.js";
import { absolute, textOf } from "../source/url.js";
import { fitOf } from "./space.js";

/** @import * as Api from "../weightstream.js" */

/**
 * Nothing is cached if the storage cannot be read, unless only the code that reads it did not arrive.
 *
 * @param {Error & { code?: string }} error
 * @returns {never[]}
 */
function withoutStorage(error) {
  if (error.code === "NETWORK") throw error;
  return [];
}

/** @type {typeof Api.willFit} */
export async function willFit(source, given) {
  const { inWorker, onProgress, ...checked } = openOptions(given);
  if (isResponse(source)) throw invalid("`source` is a Response, whose body can be read only once: pass its URL");
  const { cache, headers, credentials } = checked;
  const url = textOf(source);
  const address = url === undefined ? undefined : absolute(url, "source", checked.fetch !== undefined);
  // A file on a disk is read by a `fetch` of the entry point.
  const isRequested = address !== undefined && /^(https?|hf):/.test(address);
  /** @type {any} */
  const all = checked;
  /** @type {any} Of the class of this module, not of its type in the API. */
  const loader = await StreamingLoader.open(source, all);
  try {
    /** @type {Api.TensorInfo[]} */
    const tensors = await loader.loadIndex();
    // Bytes of other credentials cannot be distinguished.
    const isPrivate = headers !== undefined || credentials === "include" || checked.hub?.token !== undefined;
    const cached = isRequested && !isPrivate ? await settle(() => cacheList()).catch(withoutStorage) : [];
    /** @type {Set<string>} */
    const names = new Set(loader[NAMES_IN_CACHE]());
    const ofModel = cached.filter(({ url }) => names.has(url));
    const cachedBytes = ofModel.reduce((sum, { cachedBytes }) => sum + cachedBytes, 0);
    const isCaching = isRequested && loader[IS_CACHING];
    return await fitOf(tensors, isCaching, cache, ofModel.length > names.size ? 0 : cachedBytes);
  } finally {
    loader.close();
  }
}
