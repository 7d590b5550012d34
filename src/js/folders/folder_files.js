// @ts-check
// The cache in a folder of the user, or in a storage bucket. The module uses it as a cache object of the caller. This
// script is loaded when it is first needed.
import { fail } from "../loader/error.js";
import { messageOf } from "../module/guard.js";
import { Contents } from "./contents.js";
import { Entry } from "./entry.js";
import { canWrite, folderAt, ifPresent, namesIn, remove } from "./handles.js";
import { CONTENT, keyOf, split } from "./keys.js";

/** @import { Folder } from "./handles.js" */
/** @import { WeightCache } from "../weightstream.js" */

/**
 * Where the files are: a folder of the user, or the name of a storage bucket.
 *
 * @typedef {FileSystemDirectoryHandle | { storageBucket: string }} Place
 */

/** @typedef {(url: string) => Promise<string>} PathOf */

/** What weightstream has in a folder, besides complete files. */
const OWN = [".weightstream"];

const IS_NAME = /^[0-9a-f]{32}$/;

/** Pages that need what another one has not written yet ask for it here. */
const CHANNEL = "weightstream folders";

/** A page that waits for the bytes of another one asks often. */
const MIN_FLUSH_INTERVAL_MS = 500;

/** @type {WeakMap<FileSystemDirectoryHandle, FolderCache>} */
const ofFolders = new WeakMap();
/** @type {Map<string, Promise<FolderCache>>} */
const ofBuckets = new Map();

/**
 * The cache at a place. Loaders of this page share it. Rejects if the page may not write there.
 *
 * @param {Place} place
 * @param {PathOf} pathOf
 * @returns {Promise<FolderCache>}
 */
export async function folderCache(place, pathOf) {
  if (!canWrite()) {
    const message = "This browser cannot write to folders: it has no createWritable(). Use another `cache`.";
    throw fail({ code: "UNSUPPORTED", message });
  }
  if (!("storageBucket" in place)) {
    const cache = ofFolders.get(place) ?? new FolderCache(place, pathOf);
    ofFolders.set(place, cache);
    await cache.checkPermission();
    return cache;
  }
  const name = place.storageBucket;
  const opening = ofBuckets.get(name) ?? openBucket(name);
  ofBuckets.set(name, opening);
  opening.catch(() => ofBuckets.delete(name)); // so that a later call can succeed
  return opening;
}

/** @param {string} name */
async function openBucket(name) {
  try {
    const bucket = await /** @type {any} */ (navigator).storageBuckets.open(name);
    return new FolderCache(await bucket.getDirectory(), undefined);
  } catch (cause) {
    throw fail({ code: "IO", message: `The storage bucket "${name}" cannot be opened: ${messageOf(cause)}.`, cause });
  }
}

/** @implements {WeightCache} */
export class FolderCache {
  /** @type {string | undefined} Why the last complete file could not be written. */
  error;
  #root;
  #pathOf;
  /** @type {Map<string, Entry>} */
  #entries = new Map();
  #contents;

  /**
   * @param {Folder} root
   * @param {PathOf | undefined} pathOf Undefined for a storage bucket, which no other program reads.
   */
  constructor(root, pathOf) {
    this.#root = root;
    this.#pathOf = pathOf;
    this.#contents = new Contents(root, OWN, this.#report);
  }

  /** @param {string} key */
  get(key) {
    return this.#run(async () => this.#entryOf(key, (entry, rest) => entry.get(rest), () => this.#contents.get(key)));
  }

  /**
   * @param {string} key
   * @param {Uint8Array<ArrayBuffer>} bytes
   */
  set(key, bytes) {
    const contents = async () => this.#contents.set(key, bytes);
    return this.#run(async () => this.#entryOf(key, (entry, rest) => entry.set(rest, bytes), contents));
  }

  /** @param {string} key */
  delete(key) {
    const contents = async () => this.#contents.set(key, undefined);
    return this.#run(async () => this.#entryOf(key, (entry, rest) => entry.delete(rest), contents));
  }

  /** @param {string} [prefix] The beginning of the keys. More of them may be returned. */
  keys(prefix = "") {
    return this.#run(async () => {
      if (prefix.startsWith(CONTENT)) return this.#contents.keys();
      const asked = split(prefix)?.name;
      const lists = (asked ? [this.#entry(asked)] : await this.#all()).map(async (entry) => {
        requestFlush(entry);
        return (await entry.rests()).map((rest) => keyOf(entry.name, rest));
      });
      return [...(asked ? [] : await this.#contents.keys()), ...(await Promise.all(lists)).flat()];
    });
  }

  /** What the folder has of each file, once all earlier writes are on the disk. */
  list() {
    return this.#run(async () => {
      await this.#contents.flush();
      const found = await Promise.all((await this.#all()).map((entry) => entry.info()));
      return found.flatMap((file) => file ?? []);
    });
  }

  /**
   * Deletes files, or everything.
   *
   * @param {(url: string) => boolean} [isWanted]
   */
  deleteFiles(isWanted) {
    return this.#run(async () => {
      for (const entry of await this.#all()) {
        const file = await entry.info();
        if (!isWanted || (file && isWanted(file.url))) await entry.delete("head");
      }
      if (isWanted) return;
      this.#contents.discard();
      await remove(this.#root, OWN[0] ?? "");
    });
  }

  /**
   * Calls `use` for a key of a file, and `contents` for another one.
   *
   * @template T
   * @param {string} key
   * @param {(entry: Entry, rest: string) => Promise<T>} use
   * @param {() => Promise<T>} contents
   */
  async #entryOf(key, use, contents) {
    const found = split(key);
    return found ? use(this.#entry(found.name), found.rest) : contents();
  }

  /** @param {string} name */
  #entry(name) {
    const context = { root: this.#root, pathOf: this.#pathOf, report: this.#report, opened };
    const entry = this.#entries.get(name) ?? new Entry(name, OWN, context);
    this.#entries.set(name, entry);
    return entry;
  }

  async #all() {
    const own = await ifPresent(folderAt(this.#root, OWN));
    return (await namesIn(own)).filter((name) => IS_NAME.test(name)).map((name) => this.#entry(name));
  }

  #report = (/** @type {unknown} */ error) => void (this.error = messageOf(this.#explained(error)));

  /**
   * @template T
   * @param {() => Promise<T>} work
   */
  async #run(work) {
    try {
      return await work();
    } catch (error) {
      throw this.#explained(error);
    }
  }

  /** Rejects if the page may not write to the folder. A permission that is lost later is an error of its operations. */
  async checkPermission() {
    // Browsers that have only the origin private file system have no such method.
    const state = await /** @type {any} */ (this.#root).queryPermission?.({ mode: "readwrite" });
    if (state !== undefined && state !== "granted") throw this.#notAllowed(undefined);
  }

  /** @param {unknown} cause */
  #notAllowed(cause) {
    const advice = "Call allowFolder() of weightstream/folders when the user clicks, and open the model again.";
    return fail({ code: "IO", message: `The page may not write to the folder "${this.#root.name}". ${advice}`, cause });
  }

  /** @param {any} error */
  #explained(error) {
    if (error?.name === "NotAllowedError") return this.#notAllowed(error);
    // The module would delete the files that were used least recently, which are the user's here.
    const isFull = error?.name === "QuotaExceededError";
    if (error?.name === "LoadError" || (isFull && !this.#pathOf)) return error;
    const what = isFull ? "the disk is full" : messageOf(error).replace(/\.$/, "");
    const message = `The folder "${this.#root.name}" cannot be used as a cache: ${what}.`;
    return fail({ code: isFull ? "LIMIT" : "IO", message, cause: error });
  }
}

/** @type {Set<Entry>} Entries with a segment that is being written. */
const writing = new Set();
/** @type {BroadcastChannel | undefined} */
let channel;
/** @type {Map<string, number>} When entries were last flushed for others, by name. */
const flushed = new Map();

/** @param {Entry} entry */
function opened(entry) {
  if (!listen()) return;
  writing.add(entry);
}

/** Listens to other pages, and for the end of this one: what is not written then is lost. */
function listen() {
  if (channel) return true;
  if (typeof BroadcastChannel === "undefined") return false;
  channel = new BroadcastChannel(CHANNEL);
  /** @type {any} */ (channel).unref?.(); // it must not keep a process running
  channel.onmessage = ({ data }) => flushNamed(data, undefined);
  globalThis.document?.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") writing.forEach(flush);
  });
  return true;
}

/**
 * Asks all others who write the same file to write what they have.
 *
 * @param {Entry} entry
 */
function requestFlush(entry) {
  flushNamed(entry.name, entry);
  if (listen()) channel?.postMessage(entry.name);
}

/**
 * @param {unknown} name
 * @param {Entry | undefined} except
 */
function flushNamed(name, except) {
  for (const entry of writing) {
    if (entry.name !== name || entry === except) continue;
    if (Date.now() - (flushed.get(entry.name) ?? 0) < MIN_FLUSH_INTERVAL_MS) continue;
    flushed.set(entry.name, Date.now());
    flush(entry);
  }
}

/** @param {Entry} entry */
function flush(entry) {
  writing.delete(entry);
  entry.flush().catch(() => {}); // its pieces are missing then
}
