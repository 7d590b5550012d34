// @ts-check
// Real files in the origin private file system, for what a lazy Blob cannot do.
import { LoadError, fail } from "../loader/error.js";
import { messageOf } from "../module/guard.js";
import { answered } from "./storage.js";

/** @import { ListedFile } from "../module/glue.js" */
/** @import { RemoteFile } from "../file/file.js" */

/** The folder of the files, with a folder for each name in the cache. `clearCache` deletes it. */
const FOLDER = "weightstream files";

/** A file with the name in the cache. The other files of its folder are downloads. */
const NAME = "name";

/** A download that was not finished after this time belongs to a page that was closed. */
const MAX_UNFINISHED_MS = 24 * 60 * 60 * 1000;

/**
 * Writes a file to the origin private file system, and returns it once all of it was written and verified. It then
 * replaces the files that earlier calls for the same name have written.
 *
 * @param {RemoteFile} remote
 * @param {string | undefined} name Its name in the cache.
 * @param {AbortSignal} signal
 * @returns {Promise<File>}
 */
export async function storedFile(remote, name, signal) {
  const own = crypto.randomUUID(); // a call that fails must not touch the files of others
  try {
    const all = await (await root()).getDirectoryHandle(FOLDER, { create: true });
    const folder = await all.getDirectoryHandle(name === undefined ? own : await hashOf(name), { create: true });
    try {
      await new Blob([name ?? ""]).stream().pipeTo(await writable(folder, NAME));
      await remote.stream({ signal }).pipeTo(await writable(folder, own));
      const written = await (await folder.getFileHandle(own)).getFile();
      await deleteReplaced(folder, own);
      return new File([written], remote.url.split("/").pop() ?? "", { type: remote.type });
    } catch (error) {
      await folder.removeEntry(own).catch(() => {});
      throw error;
    }
  } catch (error) {
    if (error instanceof LoadError || !(error instanceof Error || error instanceof DOMException)) throw error;
    const message = `${remote.url} cannot be stored as a file: ${messageOf(error)}. Free storage, or use blob().`;
    throw fail({ code: "IO", message, url: remote.url, cause: error });
  }
}

/**
 * @param {FileSystemDirectoryHandle} folder
 * @param {string} name
 */
const writable = async (folder, name) => (await folder.getFileHandle(name, { create: true })).createWritable();

/**
 * Deletes the other downloads in a folder, except those that another page may be writing: they are empty until then.
 *
 * @param {FileSystemDirectoryHandle} folder
 * @param {string} own
 */
async function deleteReplaced(folder, own) {
  for await (const { name, size, lastModified } of downloads(folder)) {
    const isUnfinished = size === 0 && Date.now() - lastModified < MAX_UNFINISHED_MS;
    if (name !== own && !isUnfinished) await folder.removeEntry(name).catch(() => {}); // the next call tries again
  }
}

/** @param {FileSystemDirectoryHandle} folder */
async function* downloads(folder) {
  for await (const entry of folder.values()) {
    if (entry.kind === "file" && entry.name !== NAME) yield await /** @type {FileSystemFileHandle} */ (entry).getFile();
  }
}

/**
 * Lists the stored files under their names in the cache.
 *
 * @returns {Promise<ListedFile[]>}
 */
export async function storedFiles() {
  /** @type {ListedFile[]} */
  const files = [];
  await inFolder(async (all) => {
    for await (const entry of all.values()) {
      if (entry.kind !== "directory") continue;
      const folder = /** @type {FileSystemDirectoryHandle} */ (entry);
      const url = await (await (await folder.getFileHandle(NAME)).getFile()).text();
      for await (const { size, lastModified } of downloads(folder)) {
        if (size > 0) files.push({ url, cachedBytes: size, byteLength: size, lastUsed: new Date(lastModified) });
      }
    }
  }, "listed");
  return files;
}

/**
 * Deletes all stored files, or those with one of these names in the cache.
 *
 * @param {string[]} [names]
 */
export async function deleteStoredFiles(names) {
  if (!names) return inStorage((storage) => storage.removeEntry(FOLDER, { recursive: true }), "deleted");
  for (const name of new Set(names)) {
    const hash = await hashOf(name);
    await inFolder((all) => all.removeEntry(hash, { recursive: true }), "deleted");
  }
}

/**
 * @param {(folder: FileSystemDirectoryHandle) => Promise<void>} work
 * @param {string} what
 */
const inFolder = (work, what) =>
  inStorage(async (storage) => work(await storage.getDirectoryHandle(FOLDER)), what);

/**
 * Does something with the stored files, unless there are none.
 *
 * @param {(storage: FileSystemDirectoryHandle) => Promise<void>} work
 * @param {string} what What `work` does, for errors.
 */
async function inStorage(work, what) {
  try {
    await work(await root());
  } catch (error) {
    const { name, code } = /** @type {any} */ (error);
    // Without storage, as in private windows, there are no files.
    if (name === "NotFoundError" || name === "SecurityError" || code === "UNSUPPORTED") return;
    throw fail({ code: "IO", message: `Stored files cannot be ${what}: ${messageOf(error)}.`, cause: error });
  }
}

async function root() {
  const storage = globalThis.navigator?.storage;
  if (typeof storage?.getDirectory !== "function" || !("createWritable" in FileSystemFileHandle.prototype)) {
    const what = "file() needs an origin private file system with `createWritable`, which this platform does not have.";
    throw fail({ code: "UNSUPPORTED", message: `${what} Use blob() or stream().` });
  }
  return answered(storage.getDirectory());
}

/** @param {string} name */
async function hashOf(name) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`file ${name}`));
  return Array.from(new Uint8Array(digest).subarray(0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
