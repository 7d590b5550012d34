// @ts-check
// Where the bytes of a load came from, and how to make the next one come from the network.

import { deleteCached, listCached } from "./pkg/weightstream.js";
import { bytes } from "./format.js";

/** @typedef {"network" | "cache" | "both" | "files"} Origin */

/** @typedef {{ bytesReceived: number, bytesFromCache: number }} Received */

// What validates cached files, or is read again where a connection takes over, is less than this share of a load.
const FEW = 0.05;

/**
 * @param {Received} before
 * @param {Received} after
 * @returns {Received}
 */
export function receivedSince(before, after) {
  return {
    bytesReceived: after.bytesReceived - before.bytesReceived,
    bytesFromCache: after.bytesFromCache - before.bytesFromCache,
  };
}

/**
 * @param {string | File[]} source
 * @param {Received} received
 * @returns {Origin}
 */
export function originOf(source, { bytesReceived, bytesFromCache }) {
  if (typeof source !== "string") return "files";
  const share = bytesFromCache / (bytesReceived + bytesFromCache);
  return share > 1 - FEW ? "cache" : share < FEW ? "network" : "both";
}

/**
 * `91.1 MB from the cache, 5 bytes from the network`.
 *
 * @param {string | File[]} source
 * @param {Received} received
 */
export function originsText(source, { bytesReceived, bytesFromCache }) {
  if (typeof source !== "string") return "from local files";
  return `${bytes(bytesFromCache)} from the cache, ${bytes(bytesReceived)} from the network`;
}

/**
 * Deletes the cached files of a model.
 *
 * @param {string | File[]} source
 */
export async function deleteFiles(source) {
  if (typeof source !== "string") return;
  const folder = new URL(".", source).href;
  const files = (await listCached()).filter(({ url }) => url.startsWith(folder));
  await Promise.all(files.map(({ url }) => deleteCached(url)));
}
