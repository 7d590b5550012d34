// @ts-check
// Real files in the origin private file system, for what a lazy Blob cannot do.
import { LoadError, fail } from "./weightstream.error.js";
import { messageOf } from "./weightstream.guard.js";

/** @import { RemoteFile } from "./weightstream.file.js" */

/** The folder of the files. `clearCache` deletes it. */
const FOLDER = "weightstream files";

/**
 * Writes a file to the origin private file system, and returns it once all of it was written and verified.
 *
 * @param {RemoteFile} remote
 * @returns {Promise<File>}
 */
export async function storedFile(remote) {
  try {
    const folder = await (await root()).getDirectoryHandle(FOLDER, { create: true });
    const name = await hash(remote.url || crypto.randomUUID()); // files without a URL do not replace each other
    const handle = await folder.getFileHandle(name, { create: true });
    try {
      // Closing it replaces the file at once, so that an interrupted download leaves an empty file.
      await remote.stream().pipeTo(await handle.createWritable());
      const written = await handle.getFile();
      return new File([written], remote.url.split("/").pop() ?? "", { type: remote.type });
    } catch (error) {
      await folder.removeEntry(name).catch(() => {});
      throw error;
    }
  } catch (error) {
    if (error instanceof LoadError || !(error instanceof Error || error instanceof DOMException)) throw error;
    const message = `${remote.url} cannot be stored as a file: ${messageOf(error)}. Free storage, or use blob().`;
    throw fail({ code: "IO", message, url: remote.url, cause: error });
  }
}

/**
 * Deletes all stored files, or that of one URL.
 *
 * @param {string} [url]
 */
export async function deleteStoredFiles(url) {
  const storage = await root().catch(() => undefined); // without storage, as in private windows, there are no files
  if (!storage) return;
  try {
    if (url === undefined) return await storage.removeEntry(FOLDER, { recursive: true });
    const folder = await storage.getDirectoryHandle(FOLDER);
    await folder.removeEntry(await hash(url));
  } catch (error) {
    const isAbsent = /** @type {any} */ (error)?.name === "NotFoundError";
    const message = `Stored files cannot be deleted: ${messageOf(error)}.`;
    if (!isAbsent) throw fail({ code: "IO", message, cause: error });
  }
}

async function root() {
  const storage = globalThis.navigator?.storage;
  if (typeof storage?.getDirectory !== "function" || !("createWritable" in FileSystemFileHandle.prototype)) {
    const message = "This browser cannot write files to the origin private file system. Use blob() or stream().";
    throw fail({ code: "UNSUPPORTED", message });
  }
  return storage.getDirectory();
}

/** @param {string} text */
async function hash(text) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest).subarray(0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
