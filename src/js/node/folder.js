// @ts-check
// Folders by path and `file:` URL in Node.js, Deno and Bun, as handles like those of browsers.
import { createReadStream, statSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";

/** @import { FileHandle, FolderHandle } from "../module/glue.js" */

/**
 * The folder at a URL; undefined for anything else, and if it cannot be read, of which `fetchFile` reports the reason.
 *
 * @param {string} url
 * @returns {FolderHandle | undefined}
 */
export function folderAt(url) {
  if (!url.startsWith("file:")) return undefined;
  try {
    const path = fileURLToPath(url);
    return statSync(path).isDirectory() ? handleOfFolder(path) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * @param {string} path
 * @returns {FolderHandle}
 */
const handleOfFolder = (path) => ({ name: basename(path), values: () => entriesOf(path) });

/** @param {string} folder */
async function* entriesOf(folder) {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    // A link to a file is one: the cache of huggingface_hub consists of links. One to a folder may lead back here.
    const found = entry.isSymbolicLink() ? await stat(path).catch(() => undefined) : entry;
    if (entry.isDirectory()) yield handleOfFolder(path);
    if (found?.isFile()) yield handleOfFile(path);
  }
}

/**
 * @param {string} path
 * @returns {FileHandle}
 */
const handleOfFile = (path) => ({
  name: basename(path),
  getFile: async () => /** @type {any} */ (new DiskFile(path, 0, (await stat(path)).size)),
});

/**
 * What the module reads of a `File`: a range of a file on the disk. That of `openAsBlob` is not used, whose size is
 * truncated at 4 GiB and whose reads abort the process in a thread (Node.js 20).
 */
class DiskFile {
  #path;
  #start;
  /** It cannot be posted to a thread. */
  isOnDisk = true;

  /**
   * @param {string} path
   * @param {number} start
   * @param {number} end
   */
  constructor(path, start, end) {
    this.#path = path;
    this.#start = start;
    this.name = basename(path);
    this.size = end - start;
  }

  get [Symbol.toStringTag]() {
    return "File";
  }

  /**
   * @param {number} start
   * @param {number} end
   */
  slice(start, end) {
    const last = Math.min(end, this.size);
    return new DiskFile(this.#path, this.#start + Math.min(start, last), this.#start + last);
  }

  stream() {
    if (this.size === 0) return new Blob([]).stream();
    const range = { start: this.#start, end: this.#start + this.size - 1 };
    return Readable.toWeb(createReadStream(this.#path, { ...range, highWaterMark: 1 << 20 }));
  }

  arrayBuffer() {
    return new Response(/** @type {any} */ (this.stream())).arrayBuffer();
  }
}
