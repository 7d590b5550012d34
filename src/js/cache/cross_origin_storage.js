// @ts-check
// Cross-Origin Storage: one copy of a file for all sites, found by its SHA-256. `src/source/cross_origin` says when it
// is asked, compares what is found, and passes on what is stored. No function here rejects: a file that is not found or
// cannot be stored is loaded as usual, and the statistics say why.
import { messageOf } from "../module/guard.js";
import { released } from "../module/location.js";
import { answered } from "./storage.js";

/** @import { CrossOriginStorageStats } from "../weightstream.js" */
/** @import { CrossOriginAccess, CrossOriginCalls } from "./cross_origin_calls.js" */
/** @import { CrossOriginHandle, CrossOriginWritable } from "./cross_origin_calls.js" */

/** The three names of the method, of which browsers and extensions have at least one. The newest is first. */
const METHODS = ["getFileHandle", "requestFileHandle", "requestFileHandles"];

/** How a method of another signature fails. What it says about this file is that it does not have it. */
const OTHER_SIGNATURE = ["TypeError", "NotSupportedError"];

/** How long the storage may take: to answer, to pass a file from another process, and to compare a file at the end. */
const ANSWER_MS = 5_000;
const FILE_MS = 60_000;
const CLOSE_MS = 600_000;

/** All sites may read what is stored, as with other libraries that load models. */
const EVERYBODY = { create: true, origins: "*" };

/** The files that this page stores or has stored. */
const stored = new Set();

/** Settles when no file is being stored: only one is at a time. */
let storing = Promise.resolve();

/** Why the storage is not asked any more in this page: it did not answer once. @type {unknown} */
let unanswered;

/** Cross-Origin Storage, as one loader or file uses it. */
export class CrossOriginStorage {
  #stats = { filesFound: 0, filesStored: 0, filesWithoutDigest: 0 };
  /** @type {string | undefined} */
  #error;
  /** The files that were looked up and not found. */
  #missing = new Set();
  /** @type {Map<string, { writable: CrossOriginWritable, release: () => void }>} */
  #written = new Map();
  /** Gives up the file that is being stored if its next bytes do not come: the module may have crashed. */
  #timer = 0;
  #isAbandoned = false;
  /** @type {MessagePort | undefined} */
  #port;

  /** @param {true | "read"} mode */
  constructor(mode) {
    this.isWritten = mode === true;
    /** @type {CrossOriginAccess["call"]} */
    this.call = (method, ...args) => /** @type {any} */ (this.#calls)[method](...args);
  }

  /** What the module gets. A storage that cannot be used has only `stats`. */
  get access() {
    return this;
  }

  /** @returns {CrossOriginStorageStats} */
  get stats() {
    return { ...this.#stats, error: this.#error };
  }

  /** A port by which a worker calls `call`. Each message is a number, which the reply repeats, and the arguments. */
  port() {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = async ({ data: [number, method, ...args] }) => {
      port1.postMessage([number, await this.call(method, ...args)]);
    };
    /** @type {any} */ (port1).unref?.(); // it must not keep a process of Node.js running
    this.#port = port1;
    return port2;
  }

  /** Waits until no file is being stored. */
  async settled() {
    await new Promise((resolve) => setTimeout(resolve)); // a worker's last call may be on its way
    for (let last; last !== storing;) await (last = storing);
    this.#port?.close();
  }

  /** Forgets the files that are being stored, because the worker that reads them has ended. */
  abandon() {
    this.#isAbandoned = true;
    this.#port?.close();
    for (const sha256 of this.#written.keys()) void this.#end(sha256, false);
  }

  /** @type {CrossOriginCalls} */
  #calls = {
    find: (sha256) => this.#find(sha256),
    accept: () => void this.#stats.filesFound++,
    countUnknown: () => void this.#stats.filesWithoutDigest++,
    note: (reason) => void (this.#error ??= reason),
    begin: (sha256) => this.#begin(sha256),
    write: (sha256, bytes) => this.#write(sha256, bytes),
    end: (sha256, isComplete) => this.#end(sha256, isComplete),
  };

  /**
   * @param {string} what
   * @param {unknown} error
   */
  #fail(what, error) {
    this.#error ??= `${what}: ${messageOf(error)}`;
  }

  /** @param {string} sha256 */
  async #find(sha256) {
    try {
      const handle = await handleOf(sha256);
      const file = await inTime(handle.getFile(), FILE_MS);
      if (!/Blob|File/.test(Object.prototype.toString.call(file))) throw new Error("getFile() did not return a file");
      return file;
    } catch (error) {
      this.#missing.add(sha256);
      if (nameOf(error) !== "NotFoundError") this.#fail("Cross-Origin Storage is not used", error);
      return undefined;
    }
  }

  /** @param {string} sha256 */
  async #begin(sha256) {
    if (stored.has(sha256)) return false;
    stored.add(sha256);
    const before = storing;
    let release = () => {};
    storing = new Promise((resolve) => (release = resolve));
    await before;
    try {
      // A file that came from the cache was not looked up.
      if (!this.#missing.has(sha256) && (await this.#find(sha256))) {
        release();
        return false;
      }
      const handle = await handleOf(sha256, EVERYBODY);
      this.#written.set(sha256, { writable: await inTime(handle.createWritable(), ANSWER_MS), release });
      this.#awaitBytes(sha256);
      if (!this.#isAbandoned) return true;
      await this.#end(sha256, false);
      return false;
    } catch (error) {
      this.#fail("a file cannot be stored in Cross-Origin Storage", error);
      stored.delete(sha256);
      release();
      return false;
    }
  }

  /**
   * @param {string} sha256
   * @param {Uint8Array<ArrayBuffer>} bytes
   */
  async #write(sha256, bytes) {
    try {
      await answered(this.#written.get(sha256)?.writable.write(bytes), FILE_MS);
      this.#awaitBytes(sha256);
      return true;
    } catch (error) {
      this.#fail("a file cannot be stored in Cross-Origin Storage", error);
      return false;
    }
  }

  /** @param {string} sha256 */
  #awaitBytes(sha256) {
    clearTimeout(this.#timer);
    this.#timer = released(/** @type {any} */ (setTimeout(() => this.#end(sha256, false), FILE_MS)));
  }

  /**
   * @param {string} sha256
   * @param {boolean} isComplete
   */
  async #end(sha256, isComplete) {
    clearTimeout(this.#timer);
    const { writable, release } = this.#written.get(sha256) ?? {};
    this.#written.delete(sha256);
    try {
      if (isComplete) await answered(writable?.close(), CLOSE_MS);
      else await answered(writable?.abort(), ANSWER_MS).catch(() => {}); // nothing more can be done
      if (isComplete) this.#stats.filesStored++;
      else stored.delete(sha256); // a later load tries again
    } catch (error) {
      this.#fail("a file was not stored in Cross-Origin Storage", error);
      stored.delete(sha256);
    }
    release?.();
  }
}

/**
 * Like `answered`. A storage that did not answer once is not waited for again: a model may have many files.
 *
 * @template T
 * @param {Promise<T>} answer
 * @param {number} limitMs
 * @returns {Promise<T>}
 */
async function inTime(answer, limitMs) {
  if (unanswered) throw unanswered;
  const begun = performance.now();
  try {
    return await answered(answer, limitMs);
  } catch (error) {
    if (performance.now() - begun >= limitMs - 100) unanswered = error; // timers may be early
    throw error;
  }
}

/**
 * The handle of a file. The methods are tried in turn, because a name does not say which arguments it takes.
 *
 * @param {string} sha256
 * @param {typeof EVERYBODY} [options]
 * @returns {Promise<CrossOriginHandle>}
 */
async function handleOf(sha256, options) {
  const hash = { algorithm: "SHA-256", value: sha256 };
  const given = options ? [options] : [];
  /** @type {unknown} */
  let failure = new Error("this browser does not have it");
  for (const method of METHODS) {
    try {
      const storage = /** @type {any} */ (globalThis.navigator)?.crossOriginStorage;
      if (typeof storage?.[method] !== "function") continue;
      const got = await inTime(storage[method](method.endsWith("s") ? [hash] : hash, ...given), ANSWER_MS);
      const handle = Array.isArray(got) ? got[0] : got;
      if (typeof handle?.getFile === "function") return handle;
      failure = new Error(`${method}() did not return a handle of a file`);
    } catch (error) {
      if (!OTHER_SIGNATURE.includes(nameOf(error))) throw error;
      failure = error;
    }
  }
  throw failure;
}

/**
 * @param {any} error
 * @returns {string}
 */
const nameOf = (error) => String(error?.name);
