// @ts-check
// Opens Cross-Origin Storage, once the module's code for it has arrived.
import { CrossOriginStorage } from "./cross_origin_storage.js";
import { CACHED_FILES, compiled, isLoaded } from "../module/deferred.js";
import { deferredSources } from "../module/location.js";

/**
 * Cross-Origin Storage for one loader or file. Rejects if the module's code for it cannot be loaded.
 *
 * @param {true | "read"} mode
 */
export async function openStorage(mode) {
  const url = isLoaded(CACHED_FILES) ? undefined : deferredSources()[CACHED_FILES];
  if (url !== undefined) await compiled(CACHED_FILES, url);
  return new CrossOriginStorage(mode);
}
