// @ts-check
// Lists and deletes what is cached: files that the module caches, and copies of whole files.
import { cacheClear, cacheDelete, cacheList, cacheNames } from "../module/glue.js";
import { invalid } from "../loader/error.js";
import { callModule, init, settle } from "../module/module.js";
import { urlOf } from "../source/url.js";
import { deleteStoredFiles, storedFiles } from "./stored.js";

/** @import * as Api from "../weightstream.js" */

/** @type {typeof Api.listCached} */
export async function listCached() {
  await init();
  return [...(await settle(() => cacheList())), ...(await storedFiles())];
}

/** @type {typeof Api.cachedBytes} */
export async function cachedBytes() {
  return (await listCached()).reduce((sum, { cachedBytes }) => sum + cachedBytes, 0);
}

/** @type {typeof Api.deleteCached} */
export async function deleteCached(url) {
  const address = urlOf(url);
  if (/^hf:/i.test(address)) throw invalid(`"${address}" is an address: pass the \`url\` that listCached() returns`);
  await init();
  const names = callModule(() => cacheNames(address, typeof url === "string" ? url : address));
  await deleteStoredFiles(names);
  return settle(() => cacheDelete(names));
}

/** @type {typeof Api.clearCache} */
export async function clearCache() {
  await init();
  await deleteStoredFiles();
  return settle(() => cacheClear());
}
