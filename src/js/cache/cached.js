// @ts-check
// Lists and deletes what is cached: files that the module caches, and copies of whole files.
import { cacheClear, cacheDelete, cacheList, cacheModels, cacheNames } from "../module/glue.js";
import { invalid } from "../loader/error.js";
import { groupByModel, ownFiles } from "./models.js";
import { deleteOrders } from "./orders.js";
import { init, settle } from "../module/module.js";
import { urlOf } from "../source/url.js";
import { deleteStoredFiles, storedFiles } from "./stored.js";

/** @import * as Api from "../weightstream.js" */
/** @import { ListedFile, ModelFiles } from "../module/glue.js" */

/** @type {typeof Api.listCached} */
export async function listCached() {
  const files = await listFiles();
  // Which model a file belongs to must not decide whether the files can be listed.
  const found = await modelFiles(files).catch(() => []);
  return groupByModel(files, found).flatMap(({ url, files }) => files.filter(({ model }) => model === url));
}

/** @type {typeof Api.cachedModels} */
export async function cachedModels() {
  const files = await listFiles();
  return groupByModel(files, await modelFiles(files));
}

/**
 * The files that lead to others. Without cached files, the code that finds them is not loaded.
 *
 * @param {ListedFile[]} files
 * @returns {Promise<ModelFiles[]>}
 */
async function modelFiles(files) {
  return files.length === 0 ? [] : settle(() => cacheModels());
}

/** @type {typeof Api.cachedBytes} */
export async function cachedBytes() {
  return (await listFiles()).reduce((sum, { cachedBytes }) => sum + cachedBytes, 0);
}

/** @type {typeof Api.deleteCached} */
export async function deleteCached(model) {
  await init();
  const names = isListed(model) ? [model.url] : await namesOf(model);
  const listed = isListed(model) && "files" in model ? model.files.map(({ url }) => url) : [];
  try {
    await deleteFiles(ownFiles(await cachedModels(), names, listed));
  } catch (error) {
    await deleteFiles([...names, ...listed]); // also if the other files of the model cannot be found
    throw error;
  }
}

/**
 * The names in the cache that a URL stands for.
 *
 * @param {string | URL} url
 */
export async function namesOf(url) {
  const address = urlOf(url);
  if (/^hf:/i.test(address)) throw invalid(`"${address}" is an address: pass a model that cachedModels() returns`);
  return settle(() => cacheNames(address, typeof url === "string" ? url : address));
}

/** @param {string[]} names */
async function deleteFiles(names) {
  await deleteStoredFiles(names);
  await settle(() => cacheDelete(names));
}

/** @type {typeof Api.clearCache} */
export async function clearCache() {
  await init();
  await deleteStoredFiles();
  await deleteOrders();
  return settle(() => cacheClear());
}

async function listFiles() {
  await init();
  return [...(await settle(() => cacheList())), ...(await storedFiles())];
}

/**
 * Whether this is one of `cachedModels` or `listCached`.
 *
 * @param {string | URL | Api.CachedModel | Api.CachedFile} given
 * @returns {given is Api.CachedModel | Api.CachedFile}
 */
const isListed = (given) => typeof given === "object" && given !== null && "cachedBytes" in given;
