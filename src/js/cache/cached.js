// @ts-check
// Lists and deletes what is cached: files that the module caches, and copies of whole files.
import { cacheClear, cacheDelete, cacheList, cacheModels, cacheNames } from "../module/glue.js";
import { invalid } from "../loader/error.js";
import { groupByModel, ownFiles } from "./models.js";
import { callModule, init, settle } from "../module/module.js";
import { urlOf } from "../source/url.js";
import { deleteStoredFiles, storedFiles } from "./stored.js";

/** @import * as Api from "../weightstream.js" */

/** @type {typeof Api.listCached} */
export async function listCached() {
  return (await cachedModels()).flatMap(({ url, files }) => files.filter(({ model }) => model === url));
}

/** @type {typeof Api.cachedModels} */
export async function cachedModels() {
  const files = await listFiles();
  return groupByModel(files, await settle(() => cacheModels()));
}

/** @type {typeof Api.cachedBytes} */
export async function cachedBytes() {
  return (await listFiles()).reduce((sum, { cachedBytes }) => sum + cachedBytes, 0);
}

/** @type {typeof Api.deleteCached} */
export async function deleteCached(model) {
  const url = isModel(model) ? model.url : model;
  const address = urlOf(url);
  if (/^hf:/i.test(address)) throw invalid(`"${address}" is an address: pass a model that cachedModels() returns`);
  await init();
  const names = callModule(() => cacheNames(address, typeof url === "string" ? url : address));
  const all = ownFiles(await cachedModels(), names);
  await deleteStoredFiles(all);
  return settle(() => cacheDelete(all));
}

/** @type {typeof Api.clearCache} */
export async function clearCache() {
  await init();
  await deleteStoredFiles();
  return settle(() => cacheClear());
}

async function listFiles() {
  await init();
  return [...(await settle(() => cacheList())), ...(await storedFiles())];
}

/**
 * @param {string | URL | Api.CachedModel} given
 * @returns {given is Api.CachedModel}
 */
const isModel = (given) => typeof given === "object" && given !== null && "files" in given;
