// @ts-check
// Folders by path and `file:` URL in Node.js, Deno and Bun, as handles like those of browsers.
import { openAsBlob, statSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

/** @import { FileHandle, FolderHandle } from "../source/source.js" */

/**
 * The folder at a URL; undefined if it is anything else.
 *
 * @param {string} url
 * @returns {FolderHandle | undefined}
 */
export function folderAt(url) {
  if (!url.startsWith("file:")) return undefined;
  const path = fileURLToPath(url);
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ? handleOfFolder(path) : undefined;
}

/**
 * @param {string} path
 * @returns {FolderHandle}
 */
const handleOfFolder = (path) => ({ name: basename(path), values: () => entriesOf(path) });

/** @param {string} folder */
async function* entriesOf(folder) {
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    // Of a link, what it leads to: the cache of huggingface_hub consists of links.
    const found = await stat(path).catch(() => undefined);
    if (found?.isDirectory()) yield handleOfFolder(path);
    if (found?.isFile()) yield handleOfFile(path);
  }
}

/**
 * @param {string} path
 * @returns {FileHandle}
 */
function handleOfFile(path) {
  const name = basename(path);
  // The File reads from the disk when it is read. Bun makes a Blob of it, whose name is not needed.
  return { name, getFile: async () => new File([await openAsBlob(path)], name) };
}
