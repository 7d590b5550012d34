// @ts-check
// Reads and writes files in a folder.

/** @typedef {FileSystemDirectoryHandle} Folder */

/** @param {any} error */
export const isMissing = (error) => error?.name === "NotFoundError";

/**
 * The result of an operation, or undefined if what it reads does not exist.
 *
 * @template T
 * @param {Promise<T>} operation
 * @returns {Promise<T | undefined>}
 */
export const ifPresent = (operation) =>
  operation.catch((error) => {
    if (!isMissing(error)) throw error;
    return undefined;
  });

/**
 * @param {Folder | undefined} folder
 * @param {string} name
 * @returns {Promise<File | undefined>}
 */
export async function fileIn(folder, name) {
  const handle = folder && (await ifPresent(folder.getFileHandle(name)));
  return handle && ifPresent(handle.getFile());
}

/** How often a file is read that something else replaces at the same time. */
const MAX_TRIES = 5;

/**
 * The content of a file. Undefined if it does not exist, or is empty until another page has written it.
 *
 * @param {Folder | undefined} folder
 * @param {string} name
 */
export async function bytesIn(folder, name) {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const file = await fileIn(folder, name);
    if (!file || file.size === 0) return undefined;
    const bytes = await file.arrayBuffer().catch(ifGone);
    if (bytes) return new Uint8Array(bytes);
  }
  return undefined;
}

/**
 * Replaces a file by another one, which is complete or does not exist.
 *
 * @param {Folder} folder
 * @param {string} name
 * @param {FileSystemWriteChunkType} bytes
 */
export async function write(folder, name, bytes) {
  const writable = await writableIn(folder, name);
  try {
    await writable.write(bytes);
    await writable.close();
  } catch (error) {
    await writable.abort().catch(() => {}); // it may have ended
    const file = await fileIn(folder, name).catch(ifGone);
    if (file?.size === 0) await remove(folder, name).catch(() => {}); // it did not exist before
    throw error;
  }
}

/**
 * @param {Folder} folder
 * @param {string} name
 */
export async function writableIn(folder, name) {
  return (await folder.getFileHandle(name, { create: true })).createWritable();
}

/** Whether the browser can write to folders. Node.js has no such class, but may have folders of its own. */
export const canWrite = () =>
  typeof FileSystemFileHandle === "undefined" || "createWritable" in FileSystemFileHandle.prototype;

/**
 * Deletes a file, or a folder with all that is in it. Does nothing if it does not exist.
 *
 * @param {Folder | undefined} folder
 * @param {string} name
 */
export async function remove(folder, name) {
  for (let waitedMs = 0; folder; waitedMs += RETRY_INTERVAL_MS) {
    try {
      return await ifPresent(folder.removeEntry(name, { recursive: true }));
    } catch (error) {
      const isOpen = /** @type {any} */ (error)?.name === "NoModificationAllowedError";
      if (!isOpen || waitedMs >= MAX_RETRY_MS) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_INTERVAL_MS));
    }
  }
}

/** How long to retry while another page writes a file. It closes a segment after a second. */
const MAX_RETRY_MS = 3_000;
const RETRY_INTERVAL_MS = 50;

/**
 * The folder at a path.
 *
 * @param {Folder} root
 * @param {readonly string[]} path
 * @param {{ create?: boolean }} [how] Without `create`, rejects with a `NotFoundError` if it does not exist.
 */
export async function folderAt(root, path, how) {
  let folder = root;
  for (const name of path) folder = await folder.getDirectoryHandle(name, how);
  return folder;
}

/**
 * Deletes the folders of a path that are empty, the innermost first.
 *
 * @param {Folder} root
 * @param {readonly string[]} path
 */
export async function removeEmpty(root, path) {
  for (let depth = path.length; depth > 0; depth--) {
    const name = path[depth - 1] ?? "";
    try {
      await (await folderAt(root, path.slice(0, depth - 1))).removeEntry(name);
    } catch {
      return; // it has other files
    }
  }
}

/**
 * For a file that was deleted or changed while it was read.
 *
 * @param {any} error
 * @returns {undefined}
 */
export function ifGone(error) {
  if (!isMissing(error) && error?.name !== "NotReadableError") throw error;
}

/** @param {Folder | undefined} folder */
export async function namesIn(folder) {
  const names = [];
  try {
    for await (const name of folder?.keys() ?? []) names.push(name);
  } catch (error) {
    ifGone(error);
  }
  return names;
}
