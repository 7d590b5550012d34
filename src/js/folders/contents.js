// @ts-check
// Where contents are, by their digests: one file for all of them, because a model has thousands. What two pages write
// at the same time may get lost. It is only found again by a load that reads it.
import { bytesIn, fileIn, folderAt, ifPresent, write } from "./handles.js";
import { CONTENT } from "./keys.js";

/** @import { Folder } from "./handles.js" */

const FILE = "contents.json";

/** How long to wait for more of them. */
const WRITE_DELAY_MS = 400;

/** A record of the module has less than this. */
const MAX_VALUE_BYTES = 1024;

export class Contents {
  #root;
  #path;
  #report;
  /** @type {Map<string, Uint8Array<ArrayBuffer> | undefined>} What is not written yet; undefined if it is deleted. */
  #changed = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** What the file had when it was read last, and its version. */
  #read = { version: "", pairs: new Map() };

  /**
   * @param {Folder} root
   * @param {readonly string[]} path
   * @param {(error: unknown) => void} report
   */
  constructor(root, path, report) {
    this.#root = root;
    this.#path = path;
    this.#report = report;
  }

  /** @param {string} key */
  async get(key) {
    return this.#changed.has(key) ? this.#changed.get(key) : (await this.#stored()).get(key);
  }

  /**
   * @param {string} key
   * @param {Uint8Array<ArrayBuffer> | undefined} bytes Undefined deletes it.
   */
  set(key, bytes) {
    this.#changed.set(key, bytes);
    this.#timer ??= setTimeout(() => this.flush().catch(this.#report), WRITE_DELAY_MS);
  }

  async keys() {
    const all = new Map([...(await this.#stored()), ...this.#changed]);
    return Array.from(all).flatMap(([key, bytes]) => (bytes ? [key] : []));
  }

  /** Forgets what is not written, because everything is deleted. */
  discard() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#changed.clear();
  }

  async flush() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const changed = new Map(this.#changed);
    if (changed.size === 0) return;
    const all = Array.from(new Map([...(await this.#stored()), ...changed]));
    const pairs = all.flatMap(([key, bytes]) => (bytes ? [[key, Array.from(bytes)]] : []));
    // Deleting contents must not create a folder.
    const create = pairs.length > 0;
    const folder = await ifPresent(folderAt(this.#root, this.#path, { create }));
    if (folder) await write(folder, FILE, JSON.stringify(pairs));
    this.#read.version = ""; // the time of change may be the same
    for (const [key, bytes] of changed) if (this.#changed.get(key) === bytes) this.#changed.delete(key);
  }

  /** @returns {Promise<Map<string, Uint8Array<ArrayBuffer>>>} */
  async #stored() {
    const folder = await ifPresent(folderAt(this.#root, this.#path));
    const { size = 0, lastModified = 0 } = (await fileIn(folder, FILE)) ?? {};
    const version = `${size} ${lastModified}`;
    if (version !== this.#read.version) {
      const bytes = await bytesIn(folder, FILE);
      this.#read = { version, pairs: new Map(bytes && pairsIn(new TextDecoder().decode(bytes))) };
    }
    return this.#read.pairs;
  }
}

/**
 * @param {string} json
 * @returns {[string, Uint8Array<ArrayBuffer>][]}
 */
function pairsIn(json) {
  try {
    const isPair = (/** @type {any} */ pair) => Array.isArray(pair) && String(pair[0]).startsWith(CONTENT) &&
      Array.isArray(pair[1]) && pair[1].length <= MAX_VALUE_BYTES;
    /** @type {[string, number[]][]} */
    const pairs = JSON.parse(json).filter(isPair);
    return pairs.map(([key, bytes]) => [key, Uint8Array.from(bytes)]);
  } catch {
    return []; // of a crash, or of another program
  }
}
