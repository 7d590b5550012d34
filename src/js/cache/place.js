// @ts-check
// A folder of the user or a storage bucket as the option `cache`. The script that reads and writes them is loaded when
// the module first uses the cache.
import { laterScript } from "../module/later.js";

/** @import { FolderCache, PathOf, Place } from "../folders/folder_files.js" */

export const folderScript = laterScript(
  "weightstream.folder_files.js",
  () => import("../folders/folder_files.js"),
  "must import weightstream/folders",
);

/** Why the last file was not completed, which no call of the module reports. */
export const BACKGROUND_ERROR = Symbol("backgroundError");

/** @type {PathOf} */
let pathOf;

/** @param {PathOf} given The mapping of URLs to paths, which the module has. */
export function setPathOf(given) {
  pathOf = given;
}

/** @param {Place} place */
export const openPlace = async (place) => (await folderScript.load()).folderCache(place, pathOf);

/**
 * @param {any} value
 * @returns {value is FileSystemDirectoryHandle}
 */
export const isFolder = (value) => value?.kind === "directory" && typeof value.getDirectoryHandle === "function";

/**
 * @param {any} value
 * @returns {value is { storageBucket: string }}
 */
export function isStorageBucket(value) {
  const { storageBucket: name, ...others } = value ?? {};
  return typeof name === "string" && /^[a-z\d][a-z\d_-]{0,63}$/.test(name) && Object.keys(others).length === 0;
}

/**
 * The object that the module uses as a cache, with the error of what it does in the background. Without the methods,
 * the module uses the cache of the origin.
 *
 * @param {Place} place
 * @returns {any} A `WeightCache`.
 */
export function cacheAt(place) {
  if ("storageBucket" in place && !("storageBuckets" in (globalThis.navigator ?? {}))) {
    return { [BACKGROUND_ERROR]: "this browser has no Storage Buckets, so the ordinary cache is used" };
  }
  /** @type {Promise<FolderCache> | undefined} */
  let opening;
  /** @type {FolderCache | undefined} */
  let cache;
  const open = async () => (cache = await openPlace(place));
  const call = (/** @type {"get" | "set" | "delete" | "keys"} */ method) =>
    async (/** @type {[any, any]} */ ...given) => (await (opening ??= open()))[method](...given);
  return {
    get: call("get"), set: call("set"), delete: call("delete"), keys: call("keys"),
    get [BACKGROUND_ERROR]() {
      return cache?.error;
    },
  };
}
