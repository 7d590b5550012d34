// @ts-check
// `weightstream/folders`: folders of the user as caches: which one the user has chosen, whether the page may use it,
// and what it contains.
import { namesOf } from "../cache/cached.js";
import { folderScript, isFolder, isStorageBucket, openPlace } from "../cache/place.js";
import { init } from "../module/module.js";
import { invalidValue } from "../options/check.js";
import { string } from "../options/options.js";
import * as folderFilesScript from "./folder_files.js";
import * as remembered from "./remembered.js";

/** @import * as Api from "./folders.js" */
/** @import { Place } from "./folder_files.js" */

// import() is not allowed in service workers
folderScript.provide(folderFilesScript);

const DEFAULT = "default";
const WRITABLE = { mode: "readwrite" };

/** @type {typeof Api.rememberFolder} */
export const rememberFolder = async (folder, name = DEFAULT) =>
  void (await remembered.put(string(name, "name"), checkedFolder(folder)));

/** @type {typeof Api.rememberedFolder} */
export const rememberedFolder = (name = DEFAULT) => remembered.get(string(name, "name"));

/** @type {typeof Api.forgetFolder} */
export const forgetFolder = (name = DEFAULT) => remembered.remove(string(name, "name"));

/** @type {typeof Api.folderPermission} */
export async function folderPermission(folder) {
  const handle = /** @type {any} */ (checkedFolder(folder));
  return handle.queryPermission ? handle.queryPermission(WRITABLE) : "granted"; // that of the origin itself
}

/** @type {typeof Api.allowFolder} */
export async function allowFolder(folder) {
  const handle = /** @type {any} */ (checkedFolder(folder));
  // At once: a click counts for a few seconds only.
  return handle.requestPermission ? (await handle.requestPermission(WRITABLE)) === "granted" : true;
}

/** @type {typeof Api.folderFiles} */
export async function folderFiles(place) {
  return (await cacheOf(place)).list();
}

/** @type {typeof Api.deleteFromFolder} */
export async function deleteFromFolder(place, url) {
  const cache = await cacheOf(place);
  await init();
  const names = await namesOf(url);
  return cache.deleteFiles((name) => names.includes(name));
}

/** @type {typeof Api.clearFolder} */
export async function clearFolder(place) {
  return (await cacheOf(place)).deleteFiles();
}

/** @param {unknown} given */
async function cacheOf(given) {
  if (!isFolder(given) && !isStorageBucket(given)) {
    throw invalidValue("place", given, "a FileSystemDirectoryHandle, or { storageBucket: name }");
  }
  return openPlace(/** @type {Place} */ (given));
}

/**
 * @param {unknown} folder
 * @returns {FileSystemDirectoryHandle}
 */
function checkedFolder(folder) {
  if (!isFolder(folder)) throw invalidValue("folder", folder, "a FileSystemDirectoryHandle");
  return folder;
}
