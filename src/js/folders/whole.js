// @ts-check
// A complete file under its own name in the folder of the user, where other programs use it. A record of ours says
// which file that is. Only a file that is as this record says is ours: any other one is never replaced or deleted.
import { bytesIn, fileIn, folderAt, ifPresent, remove, removeEmpty, write, writableIn } from "./handles.js";
import { pieceOf } from "./keys.js";

/** @import { Folder } from "./handles.js" */

/** The name of the record. */
const RECORD = "whole.json";

/** How many bytes of two files are compared at a time. */
const COMPARED_BYTES = 4 << 20;

/**
 * The length and the time of change tell whether another program has changed the file. While it is written, its length
 * is 0, as that of the file that `createWritable` will replace. The time is -1 if another program has written the file:
 * it is used, but never replaced or deleted.
 *
 * @typedef {{ path: string[], byteLength: number, lastModified: number, pieces: string[] }} WholeRecord
 */

/**
 * A part of the file, and where its bytes are.
 *
 * @typedef {{ bytes: () => Promise<Blob | undefined>, byteLength: number }} Part
 */

export class WholeFile {
  #root;
  #own;

  /**
   * @param {Folder} root The folder of the user.
   * @param {Folder} own That of the record.
   */
  constructor(root, own) {
    this.#root = root;
    this.#own = own;
  }

  /** @returns {Promise<WholeRecord | undefined>} */
  async record() {
    try {
      const { path, byteLength, lastModified, pieces } = JSON.parse(
        new TextDecoder().decode((await bytesIn(this.#own, RECORD)) ?? new Uint8Array()),
      );
      const isPath = Array.isArray(path) && path.length > 0 && path.every((name) => typeof name === "string");
      const isValid = isPath && Number.isSafeInteger(byteLength) && Array.isArray(pieces) && pieces.every(pieceOf);
      return isValid ? { path, byteLength, lastModified, pieces } : undefined;
    } catch (error) {
      if (error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  /**
   * The file of a record, if it has the length of the one that was written. Every piece that is read from it is checked
   * by the module, so a copy with another time of change is used, too.
   *
   * @param {WholeRecord} record
   */
  async file({ path, byteLength }) {
    const file = await this.#fileAt(path);
    return byteLength > 0 && file?.size === byteLength ? file : undefined;
  }

  /** Forgets the file, and leaves it to the user. */
  forget() {
    return remove(this.#own, RECORD);
  }

  /** Deletes the file, unless another program has changed it. */
  async delete() {
    const record = await this.record();
    if (!record) return;
    if (await this.#isOwn(record)) await this.#remove(record.path);
    await this.forget();
  }

  /**
   * Writes the file, and returns its record. Rejects if another file has its name.
   *
   * @param {string[]} path
   * @param {Part[]} parts All bytes of the file.
   * @param {string[]} pieces The keys of the pieces that are read from it.
   * @param {() => Promise<boolean>} isWanted Whether the parts are still those of the file.
   * @returns {Promise<WholeRecord | undefined>} Undefined if a part is gone or the file is no longer wanted.
   */
  async join(path, parts, pieces, isWanted) {
    const [folder, name] = [await folderAt(this.#root, path.slice(0, -1), { create: true }), path.at(-1) ?? ""];
    const found = await fileIn(folder, name);
    const record = await this.record();
    const isSame = record && String(record.path) === String(path);
    const isOwn = isSame && (await this.#isOwn(record));
    let isForeign = false;
    if (found && !isOwn) {
      if (!(await isEqual(found, parts))) throw this.#conflict(path);
      isForeign = !isSame || record.byteLength > 0; // otherwise the page was closed when the file was complete
    } else {
      await this.#save({ path, byteLength: 0, lastModified: 0, pieces: [] });
      if (!(await this.#write(folder, name, parts, isWanted))) return undefined;
    }
    const file = await fileIn(folder, name);
    if (!file) return undefined;
    const joined = { path, byteLength: file.size, lastModified: isForeign ? -1 : file.lastModified, pieces };
    await this.#save(joined);
    return joined;
  }

  /**
   * @param {Folder} folder
   * @param {string} name
   * @param {Part[]} parts
   * @param {() => Promise<boolean>} isWanted
   */
  async #write(folder, name, parts, isWanted) {
    const writable = await writableIn(folder, name);
    let isWritten = false;
    try {
      for (const { bytes } of parts) {
        const blob = (await isWanted()) ? await bytes() : undefined;
        if (!blob) return false;
        await writable.write(blob);
      }
      // Another page, or the user, may have done something in the meantime.
      if (!(await isWanted()) || (await fileIn(folder, name))?.size !== 0) return false;
      await writable.close();
      isWritten = await isWanted(); // closing a large file takes seconds
      if (!isWritten) await remove(folder, name);
    } finally {
      if (!isWritten) {
        await writable.abort().catch(() => {}); // it may have ended
        await this.delete(); // the empty file
      }
    }
    return isWritten;
  }

  /** @param {WholeRecord} record */
  async #isOwn({ path, byteLength, lastModified }) {
    const file = await this.#fileAt(path);
    return file?.size === byteLength && (byteLength === 0 || file.lastModified === lastModified);
  }

  /** @param {string[]} path */
  async #fileAt(path) {
    const folder = await ifPresent(folderAt(this.#root, path.slice(0, -1)));
    return fileIn(folder, path.at(-1) ?? "");
  }

  /** @param {string[]} path */
  async #remove(path) {
    const folders = path.slice(0, -1);
    await remove(await ifPresent(folderAt(this.#root, folders)), path.at(-1) ?? "");
    await removeEmpty(this.#root, folders);
  }

  /** @param {WholeRecord} record */
  #save(record) {
    return write(this.#own, RECORD, JSON.stringify(record));
  }

  /** @param {string[]} path */
  #conflict(path) {
    const what = `the folder "${this.#root.name}" has another file "${path.join("/")}", which is not overwritten`;
    return new Error(`${what}: the model is cached beside it, in ".weightstream". Move or delete that file`);
  }
}

/**
 * @param {File} file
 * @param {Part[]} parts
 */
async function isEqual(file, parts) {
  if (file.size !== parts.reduce((sum, { byteLength }) => sum + byteLength, 0)) return false;
  let at = 0;
  for (const { bytes, byteLength } of parts) {
    const blob = await bytes();
    if (!blob) return false;
    for (let done = 0; done < byteLength; done += COMPARED_BYTES) {
      const end = Math.min(done + COMPARED_BYTES, byteLength);
      const [one, other] = await Promise.all(
        [blob.slice(done, end), file.slice(at + done, at + end)].map((part) => part.arrayBuffer()),
      );
      if (!one || !other || !hasSameBytes(one, other)) return false;
    }
    at += byteLength;
  }
  return true;
}

/**
 * @param {ArrayBuffer} one
 * @param {ArrayBuffer} other
 */
function hasSameBytes(one, other) {
  const [left, right] = [new Uint8Array(one), new Uint8Array(other)];
  return left.length === right.length && left.every((byte, at) => byte === right[at]);
}
