// @ts-check
// The cache in Node.js, Deno and Bun: a folder with a file for each key. Processes share it. A file is written under
// another name and renamed, and the module checks each value, so a crash costs at most the value that was written.
import { randomUUID } from "node:crypto";
import { mkdir, readFile, readdir, rename, stat, statfs, unlink, writeFile } from "node:fs/promises";
import { freemem, homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { invalid } from "../loader/error.js";

/** @import { WeightCache } from "../weightstream.js" */
/** @import { Space } from "../module/location.js" */

/** What the name of a file that is being written begins with. No key begins like this. */
const UNFINISHED = "unfinished-";

/** A file that was not finished after this time belongs to a process that has crashed. */
const MAX_UNFINISHED_MS = 24 * 60 * 60 * 1000;

/** The number of bytes that may be written before the size of the folder is determined again. */
const CHECK_BYTES = 64 << 20;

/** Values of up to this size are stored even if the folder is full: the heads of files, and when they were used. */
const SMALL_BYTES = 4096;

/**
 * Throws if the platform does not say where the user's files are.
 *
 * @returns {string}
 */
const cacheFolder = () => environment("WEIGHTSTREAM_CACHE") || join(systemFolder(), "weightstream");

/** Throws if a setting is invalid. */
export const checkCache = () => void maxCacheBytes();

const maxCacheBytes = () => sizeOf(environment("WEIGHTSTREAM_CACHE_SIZE"));

/**
 * A variable of the environment; undefined if Deno may not read it.
 *
 * @param {string} name
 */
function environment(name) {
  try {
    return process.env[name];
  } catch {
    return undefined;
  }
}

/**
 * The free space of the folder's file system, and the free memory.
 *
 * @returns {Promise<Space>}
 */
export async function freeSpace() {
  return { storage: await freeStorage(), memory: freeMemory() };
}

/** Undefined if Deno may not say it. */
function freeMemory() {
  try {
    return process.availableMemory?.() ?? freemem();
  } catch {
    return undefined;
  }
}

async function freeStorage() {
  try {
    return await freeStorageAt(resolve(cacheFolder()));
  } catch {
    return undefined;
  }
}

/**
 * @param {string} folder
 * @returns {Promise<number | undefined>}
 */
async function freeStorageAt(folder) {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch (error) {
    const isMissing = /** @type {NodeJS.ErrnoException} */ (error)?.code === "ENOENT";
    return isMissing && dirname(folder) !== folder ? freeStorageAt(dirname(folder)) : undefined;
  }
}

/**
 * The settings are read when the cache is used, so that they do not concern other loads.
 *
 * @returns {WeightCache}
 */
export function folderCache() {
  const pathOf = (/** @type {string} */ key) => join(cacheFolder(), key);
  let availableBytes = 0;

  /** @param {number} byteLength */
  async function reserve(byteLength) {
    const folder = cacheFolder();
    const maxBytes = maxCacheBytes();
    if (availableBytes < byteLength) availableBytes = Math.min(await spaceIn(folder, maxBytes), CHECK_BYTES);
    if (availableBytes < byteLength) {
      const limit = maxBytes === undefined ? "half of the disk space that other files leave" : `${maxBytes} bytes`;
      const what = `the cache in ${folder} is full: it may have ${limit} (WEIGHTSTREAM_CACHE_SIZE)`;
      throw new DOMException(what, "QuotaExceededError"); // the module deletes old files
    }
    availableBytes -= byteLength;
  }

  return {
    get: async (key) => readFile(pathOf(key)).catch(ifMissing),
    async set(key, bytes) {
      if (bytes.byteLength > SMALL_BYTES) await reserve(bytes.byteLength);
      const unfinished = pathOf(UNFINISHED + randomUUID());
      const write = () => writeFile(unfinished, bytes);
      const discard = async (/** @type {unknown} */ error) => {
        await unlink(unfinished).catch(() => {}); // the disk may be full
        throw error;
      };
      await write().catch(async (error) => {
        if (error.code !== "ENOENT") return discard(error);
        await mkdir(cacheFolder(), { recursive: true });
        await write().catch(discard);
      });
      await rename(unfinished, pathOf(key)).catch(discard);
    },
    delete: async (key) => unlink(pathOf(key)).catch(ifMissing),
    async keys() {
      const names = (await readdir(cacheFolder()).catch(ifMissing)) ?? [];
      return names.filter((name) => !name.startsWith(UNFINISHED));
    },
  };
}

/**
 * The number of bytes that may still be written to a folder. Deletes what crashed processes have left in it.
 *
 * @param {string} folder
 * @param {number | undefined} maxBytes Default: half of the disk space that other files leave.
 */
async function spaceIn(folder, maxBytes) {
  await mkdir(folder, { recursive: true });
  let used = 0;
  for (const name of await readdir(folder)) {
    const found = await stat(join(folder, name)).catch(ifMissing); // another process may have deleted it
    const isLeft = name.startsWith(UNFINISHED) && found && Date.now() - found.mtimeMs > MAX_UNFINISHED_MS;
    if (isLeft) await unlink(join(folder, name)).catch(ifMissing);
    else used += found?.size ?? 0;
  }
  if (maxBytes !== undefined) return maxBytes - used;
  const { bavail, bsize } = await statfs(folder);
  return (bavail * bsize - used) / 2; // half of used and free bytes, without those that are used
}

/** @type {Record<string, number>} */
const UNITS = { "": 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KIB: 2 ** 10, MIB: 2 ** 20, GIB: 2 ** 30, TIB: 2 ** 40 };

/** @param {string | undefined} text */
function sizeOf(text) {
  if (!text) return undefined;
  const [, number, unit = ""] = /^(\d+(?:\.\d+)?) *([a-z]*)$/i.exec(text.trim()) ?? [];
  const bytes = Number(number) * (UNITS[unit.toUpperCase()] ?? NaN);
  if (Number.isFinite(bytes)) return Math.floor(bytes);
  throw invalid(`the environment variable WEIGHTSTREAM_CACHE_SIZE is "${text}", but must be a size such as 20GB`);
}

/** The folder of the system for data that programs can fetch again. */
function systemFolder() {
  if (process.platform === "win32") return environment("LOCALAPPDATA") || join(homedir(), "AppData", "Local");
  if (process.platform === "darwin") return join(homedir(), "Library", "Caches");
  return environment("XDG_CACHE_HOME") || join(homedir(), ".cache");
}

/** @param {NodeJS.ErrnoException} error */
function ifMissing(error) {
  if (error.code !== "ENOENT") throw error;
  return undefined;
}
