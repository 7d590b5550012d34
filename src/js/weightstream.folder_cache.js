// @ts-check
// The cache in Node.js, Deno and Bun: a folder with a file for each key. Processes share it. A file is written under
// another name and renamed, and the module checks each value, so a crash costs at most the value that was written.
import { randomUUID } from "node:crypto";
import { mkdir, readFile, readdir, rename, unlink, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

/** @import { WeightCache } from "./weightstream.js" */

/** What the name of a file that is being written begins with. No key begins like this. */
const UNFINISHED = "unfinished-";

/** @returns {WeightCache} */
export function folderCache() {
  const folder = process.env.WEIGHTSTREAM_CACHE || join(systemFolder(), "weightstream");
  const pathOf = (/** @type {string} */ key) => join(folder, key);
  return {
    get: (key) => readFile(pathOf(key)).catch(ifMissing),
    async set(key, bytes) {
      const unfinished = pathOf(UNFINISHED + randomUUID());
      const write = () => writeFile(unfinished, bytes);
      const discard = async (/** @type {unknown} */ error) => {
        await unlink(unfinished).catch(() => {}); // the disk may be full
        throw error;
      };
      await write().catch(async (error) => {
        if (error.code !== "ENOENT") return discard(error);
        await mkdir(folder, { recursive: true });
        await write().catch(discard);
      });
      await rename(unfinished, pathOf(key)).catch(discard);
    },
    delete: (key) => unlink(pathOf(key)).catch(ifMissing),
    async keys() {
      const names = (await readdir(folder).catch(ifMissing)) ?? [];
      return names.filter((name) => !name.startsWith(UNFINISHED));
    },
  };
}

/** The folder of the system for data that programs can fetch again. */
function systemFolder() {
  const { LOCALAPPDATA, XDG_CACHE_HOME } = process.env;
  if (process.platform === "win32") return LOCALAPPDATA || join(homedir(), "AppData", "Local");
  if (process.platform === "darwin") return join(homedir(), "Library", "Caches");
  return XDG_CACHE_HOME || join(homedir(), ".cache");
}

/** @param {NodeJS.ErrnoException} error */
function ifMissing(error) {
  if (error.code !== "ENOENT") throw error;
  return undefined;
}
