// @ts-check
// Files that a service worker serves. Requests for the same file share it while it is open.
import { openFile } from "../weightstream.js";
import { BlockCache } from "../file/blocks.js";
import { urlOf } from "../source/url.js";

/** @import { OpenFileOptions, RemoteFile } from "../weightstream.js" */
/** @import { RangeReader } from "../file/blocks.js" */
/** @import { Pieces } from "../file/stream.js" */

/**
 * How long a file is used for further requests after it was opened. Consumers read a file with many Range requests. The
 * next request opens it again, so that the server can say that it has changed, or that the user may no longer read it.
 */
const MAX_AGE_MS = 5_000;

/** How many files stay open for that. */
const MAX_IDLE = 8;

/** The default of `maxMemory`. */
const MAX_MEMORY_BYTES = 32 * 1024 * 1024;

/** A response of the server with an error status. */
export class Refusal extends Error {
  /** @param {Response} response */
  constructor(response) {
    super(`HTTP status ${response.status}`);
    this.response = response;
  }
}

/** An open file, and what the server said about its version. */
export class ServedFile {
  /** @type {BlockCache | undefined} */
  #blocks;

  /**
   * @param {RemoteFile} file
   * @param {{ etag: string | null, lastModified: string | null }} version
   * @param {number} [maxMemory]
   */
  constructor(file, { etag, lastModified }, maxMemory = MAX_MEMORY_BYTES) {
    this.file = file;
    this.etag = etag?.startsWith('"') ? etag : null; // a weak ETag does not identify bytes
    this.lastModified = lastModified;
    const { byteLength } = file;
    if (byteLength === undefined) return;
    this.#blocks = new BlockCache(byteLength, maxMemory, (start, end) => rangeReader(file, start, end));
  }

  /**
   * The bytes `[start, end)`, in pieces that must be copied.
   *
   * @param {number} start
   * @param {number | undefined} end
   * @param {AbortSignal} signal
   * @returns {Pieces}
   */
  async *read(start, end, signal) {
    if (this.#blocks && end !== undefined) return yield* this.#blocks.read(start, end, signal);
    const reader = this.file.stream({ start, end, signal }).getReader();
    for (let next; !(next = await reader.read()).done;) yield next.value;
  }

  close() {
    this.#blocks?.clear();
    this.file.close();
  }
}

/**
 * A file that requests use, or that waits for the next one.
 *
 * @typedef {{
 *   key: string, opening: Promise<ServedFile>, stop: AbortController, users: number, isOpen: boolean,
 *   openedAt: number, timer?: ReturnType<typeof setTimeout>,
 * }} Entry
 */

/** The open files of a service worker. It can be lost at any time: the next request opens the file again. */
export class ServedFiles {
  #maxMemory;
  /** @type {Map<string, Entry>} Files that the next request may use, in the order of their last use. */
  #entries = new Map();

  /** @param {number} [maxMemory] */
  constructor(maxMemory) {
    this.#maxMemory = maxMemory;
  }

  /**
   * Joins the users of a file, and opens it for the first of them. `leave` must be called with the result.
   *
   * @param {string} url
   * @param {OpenFileOptions} options
   * @param {boolean} isFresh Reopen the file even if it is already open.
   * @param {string} [cookies] The cookies that requests for the file may send, as far as scripts can see them.
   */
  join(url, options, isFresh, cookies) {
    const key = JSON.stringify([url, options.headers, options.credentials, cookies]);
    let entry = this.#entries.get(key);
    if (!entry || isFresh || performance.now() - entry.openedAt > MAX_AGE_MS) {
      if (entry) this.forget(entry);
      const stop = new AbortController();
      const opened = open(url, { ...options, signal: stop.signal }, this.#maxMemory);
      const created = { key, opening: opened, stop, users: 0, isOpen: false, openedAt: Infinity };
      opened.then(() => {
        created.isOpen = true;
        created.openedAt = performance.now();
      }, () => this.forget(created));
      entry = created;
    }
    clearTimeout(entry.timer);
    entry.users++;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry;
  }

  /** @param {Entry} entry */
  leave(entry) {
    if (--entry.users > 0) return;
    if (this.#entries.get(entry.key) !== entry || !entry.isOpen) return this.forget(entry);
    entry.timer = setTimeout(() => this.forget(entry), MAX_AGE_MS);
    const idle = [...this.#entries.values()].filter(({ users }) => users === 0);
    for (const oldest of idle.slice(0, -MAX_IDLE)) this.forget(oldest);
  }

  /**
   * Later requests open the file again. It is closed when the last request ends that uses it.
   *
   * @param {Entry} entry
   */
  forget(entry) {
    clearTimeout(entry.timer);
    if (this.#entries.get(entry.key) === entry) this.#entries.delete(entry.key);
    if (entry.users > 0) return;
    entry.stop.abort();
    entry.opening.then((served) => served.close(), () => {});
  }
}

/**
 * @param {string} url
 * @param {OpenFileOptions} options
 * @param {number | undefined} maxMemory
 */
async function open(url, options, maxMemory) {
  const version = { etag: /** @type {string | null} */ (null), lastModified: /** @type {string | null} */ (null) };
  const signatureUrl = options.signature && urlOf(options.signature.url);
  const base = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  /** @type {Refusal | undefined} */
  let refusal;
  /** @type {typeof globalThis.fetch} */
  const fetch = async (input, init) => {
    const response = await base(input, init);
    if (String(input) === signatureUrl) return response;
    if (response.ok) {
      version.etag = response.headers.get("ETag");
      version.lastModified = response.headers.get("Last-Modified");
    } else if (response.status !== 416 && response.type !== "opaque") {
      // The module only reports the status. The client gets the response itself.
      const { status, statusText, headers } = response;
      const body = await response.arrayBuffer().catch(() => null);
      refusal = new Refusal(new Response(body, { status, statusText, headers }));
      return new Response(null, { status, statusText, headers });
    }
    return response;
  };
  try {
    return new ServedFile(await openFile(url, { ...options, fetch, hub: null }), version, maxMemory);
  } catch (error) {
    throw refusal && /** @type {any} */ (error)?.code === "HTTP" ? refusal : error;
  }
}

/**
 * @param {RemoteFile} file
 * @param {number} start
 * @param {number} end
 * @returns {RangeReader}
 */
function rangeReader(file, start, end) {
  const reader = file.stream({ start, end }).getReader();
  let piece = new Uint8Array(0);
  return {
    async read(length) {
      const bytes = new Uint8Array(length);
      for (let at = 0; at < length;) {
        if (piece.length === 0) {
          const { value, done } = await reader.read();
          if (done) return bytes.subarray(0, at);
          piece = value;
        }
        const part = piece.subarray(0, length - at);
        bytes.set(part, at);
        at += part.length;
        piece = piece.subarray(part.length);
      }
      return bytes;
    },
    cancel: () => void reader.cancel().catch(() => {}),
  };
}
