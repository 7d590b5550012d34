// @ts-check
// What the option `inWorker` can be combined with, and how its worker is started.
import { thisModule } from "../module/glue.js";
import { checkAborted } from "../loader/abort.js";
import { invalid } from "../loader/error.js";
import { followDeferred } from "../module/deferred.js";
import { messageOf } from "../module/guard.js";
import { hasWorkers, newWorker } from "../module/location.js";
import { offlineAdvice } from "../module/policy.js";
import { isResponse } from "../source/once.js";

/** @import { CheckedOpenOptions, CheckedSource, ModelLoader } from "../module/glue.js" */
/** @import { Storage } from "../loader/loader.js" */

/**
 * @param {unknown} source
 * @param {CheckedOpenOptions} given
 */
export function checkForWorker(source, { fetch, cache, cacheKey, partUrl }) {
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
export function checkPostable(source) {
  const isOnDisk = Array.isArray(source) && source.some(([file]) => "isOnDisk" in file);
  if (isOnDisk) throw invalid("`inWorker` cannot be combined with a folder. Pass the path of the file in it to open");
}

/**
 * Opens a loader in a dedicated worker. If there can be no such worker, returns the reason.
 *
 * @param {CheckedSource} source
 * @param {CheckedOpenOptions} given
 * @param {Storage | undefined} storage
 * @returns {Promise<{ loader?: ModelLoader, workersError?: string }>}
 */
export async function openInWorker(source, given, storage) {
  const { fetch, cache, cacheKey, partUrl, crossOriginStorage, ...others } = given;
  // Service workers may not import the script either, which would hide this reason.
  if (!hasWorkers()) return { workersError: "workers cannot be started: Worker is not available in this context" };
  let remote;
  try {
    remote = await import("./remote.js");
  } catch (cause) {
    const reason = `weightstream.remote.js cannot be loaded: ${messageOf(cause)}. ${offlineAdvice()}`;
    return { workersError: reason.trim() };
  }
  checkAborted(others.signal);
  // `checkForWorker` has refused an object and a function.
  const plain = { ...(typeof cache === "string" && { cache }), ...(partUrl === false && { partUrl }) };
  const startWorker = () => followDeferred(newWorker());
  return remote.openRemote(startWorker, thisModule(), source, { ...others, ...plain }, storage);
}
