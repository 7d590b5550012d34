// @ts-check
// Files of any format, with the retries, the verification and the cache of a model's files.
import { WasmFile } from "../module/glue.js";
import { checkAborted, untilAborted } from "../loader/abort.js";
import { BlockCache } from "./blocks.js";
import { lazyBlob } from "./blob.js";
import { BLAKE3, EXTRAS } from "../module/deferred.js";
import { CloseListeners, WHEN_CLOSED } from "../loader/closing.js";
import { MAKE, fail, invalid } from "../loader/error.js";
import { withEarlyCache } from "../source/head.js";
import { callModule, dispose, init, loadEarly, settle } from "../module/module.js";
import { isResponse } from "../source/once.js";
import * as options from "../options/options.js";
import { joined, responseOf } from "../request/response.js";
import { numbered } from "../loader/progress.js";
import { prepared, sharedStorage, withSignature } from "../source/source.js";
import { SharedCall } from "../loader/shared_call.js";
import { cachePersisted, statsOf } from "../cache/storage.js";
import { storedFile } from "../cache/stored.js";
import { byteStream } from "./stream.js";

/** @import * as Api from "../weightstream.js" */
/** @import { Stored } from "../loader/loader.js" */
/** @import { WasmFileReader } from "../module/glue.js" */

/** The default of `maxMemory`: blocks that were read by way of `blob()`, for reads that overlap. */
const MAX_MEMORY_BYTES = 32 * 1024 * 1024;

/** The media types of files that models consist of, for servers that state none. */
const TYPES = /** @type {Record<string, string>} */ ({
  json: "application/json",
  txt: "text/plain",
  wasm: "application/wasm",
  js: "text/javascript",
  mjs: "text/javascript",
});

/** What the adapters of runtimes ask a file. */
export const IS_CACHING = Symbol("isCaching");

/** @type {typeof Api.openFile} */
export const openFile = (source, given) => open(source, given);

/**
 * Opens a file with a request for the bytes of `first`, and does not wait for them. The first read that begins with
 * these bytes reads the same response.
 *
 * @param {string} url
 * @param {Api.OpenFileOptions} given
 * @param {[start: number, end: number]} first
 */
export const openHead = (url, given, first) => open(url, given, first);

/**
 * @param {Api.FileSource} source
 * @param {Api.OpenFileOptions} [given]
 * @param {[start: number, end: number]} [first]
 */
async function open(source, given, first) {
  const { maxMemory, type, onProgress, ...others } = options.fileOptions(given);
  const checked = { ...others, ...(onProgress && { onProgress: numbered(onProgress) }) };
  const { signal } = checked;
  const opening = async () => {
    const starting = init(); // first, because the module takes longest
    loadEarly(EXTRAS);
    if (checked.signature) loadEarly(BLAKE3);
    const [unsigned] = await Promise.all([prepared(source, checked).then(withEarlyCache), starting]);
    if (Array.isArray(unsigned.source)) throw invalid("`source` is a list or a folder, but openFile() opens one file");
    checkAborted(signal);
    const ready = await withSignature(unsigned, source);
    const isPersisted = cachePersisted(ready.source, ready.options.cache);
    const storage = await sharedStorage(ready.options);
    const how = { ...ready.options, ...(first && { first }), crossOriginStorage: storage?.access };
    const file = await settle(() => WasmFile.open(ready.source, how));
    const url = isResponse(source) ? source.url : ready.source;
    const storing = { cache: how.cache, isPersisted: await isPersisted, storage };
    return new RemoteFile(MAKE, file, url, { maxMemory, type, ...storing });
  };
  return untilAborted(signal, opening, (file) => file.close());
}

/** @implements {Api.RemoteFile} */
export class RemoteFile {
  #file;
  #name;
  #maxMemory;
  #type;
  /** The type of its Blobs, which is empty if nothing states one. */
  #blobType;
  #isClosed = false;
  #closeListeners = new CloseListeners();
  /** @type {BlockCache | undefined} */
  #blocks;
  /** @type {SharedCall<File> | undefined} */
  #stored;
  #storing;

  /**
   * @param {symbol} make
   * @param {WasmFile} file
   * @param {unknown} source
   * @param {{ maxMemory?: number | undefined, type?: string | undefined } & Stored} how
   */
  constructor(make, file, source, { maxMemory = MAX_MEMORY_BYTES, type, ...storing }) {
    if (make !== MAKE) throw new TypeError("Use openFile().");
    this.#file = file;
    this.#name = typeof source === "string" ? source : "";
    this.#maxMemory = maxMemory;
    this.#storing = storing;
    const stated = type ?? callModule(() => file.contentType) ?? (source instanceof Blob ? source.type : undefined);
    this.#blobType = stated ?? "";
    this.#type =
      stated ?? TYPES[this.#name.replace(/[?#].*$/s, "").split(".").pop() ?? ""] ?? "application/octet-stream";
  }

  get url() {
    return this.#name;
  }

  get byteLength() {
    return this.#isClosed ? undefined : callModule(() => this.#file.byteLength);
  }

  get type() {
    return this.#type;
  }

  get stats() {
    return statsOf(callModule(() => this.#file.stats), this.#storing);
  }

  /**
   * @param {number} [start]
   * @param {number} [end]
   * @param {Api.CallOptions} [given]
   */
  async bytes(start = 0, end, given) {
    options.position(start, "start");
    if (end !== undefined) options.position(end, "end");
    const { signal } = options.readOptions(given);
    return this.#read(start, end, signal, async (reader) => {
      const length = this.byteLength;
      if (length !== undefined || end !== undefined) return reader.fill(Math.max(0, (end ?? Infinity) - start));
      const pieces = [];
      for (let piece; (piece = await reader.chunk());) pieces.push(piece.slice());
      return joined(pieces);
    });
  }

  /** @param {Api.ReadOptions} [given] */
  stream(given) {
    const { start = 0, end, signal } = options.readOptions(given);
    return byteStream((stop) => this.#pieces(start, end, signal, stop));
  }

  /** @param {Api.CallOptions} [given] */
  async arrayBuffer(given) {
    return (await this.bytes(0, undefined, given)).buffer;
  }

  /** @param {Api.CallOptions} [given] */
  async text(given) {
    return new TextDecoder().decode(await this.bytes(0, undefined, given));
  }

  /**
   * @param {Api.CallOptions} [given]
   * @returns {Promise<any>}
   */
  async json(given) {
    const text = await this.text(given);
    try {
      return JSON.parse(text);
    } catch (cause) {
      const message = `${this.#name} is not valid JSON. Check the URL.`;
      throw fail({ code: "FORMAT", message, url: this.#name, cause });
    }
  }

  blob() {
    const length = this.#knownLength("blob");
    this.#blocks ??= new BlockCache(length, this.#maxMemory, (start, end) => this.#rangeReader(start, end));
    const blocks = this.#blocks;
    const isWhole = (/** @type {number} */ start, /** @type {number} */ end) => start === 0 && end === length;
    return lazyBlob({
      byteLength: () => length,
      open: async () => {},
      // A read of the whole file is verified, and needs no blocks.
      read: (start, end, signal) =>
        isWhole(start, end) ? this.#pieces(start, end, signal) : blocks.read(start, end, signal),
    }, this.#blobType);
  }

  response() {
    const headers = new Headers({ "Content-Type": this.#type, "Accept-Ranges": "bytes" });
    const length = this.byteLength;
    if (length !== undefined) headers.set("Content-Length", String(length));
    return responseOf(this.stream(), { status: 200, headers, url: this.#name });
  }

  /** @param {Api.CallOptions} [given] */
  async file(given) {
    const { signal } = options.callOptions(given);
    this.#knownLength("file");
    checkAborted(signal);
    this.#stored ??= new SharedCall(
      async (stop) => storedFile(this, await settle(() => this.#file.cacheName()), stop),
      () => (this.#stored = undefined), // a later call tries again
    );
    return this.#stored.join(signal);
  }

  /** Whether what is downloaded is cached, as far as it is known. */
  get [IS_CACHING]() {
    return !this.#isClosed && callModule(() => this.#file.isCaching);
  }

  /** @param {() => void} listener */
  [WHEN_CLOSED](listener) {
    this.#closeListeners.add(listener);
  }

  close() {
    this.#isClosed = true;
    this.#closeListeners.call();
    this.#blocks?.clear(); // lazy Blobs may outlive the file
    this.#blocks = undefined;
    callModule(() => this.#file.close());
  }

  [dispose]() {
    this.close();
  }

  /** @param {string} method */
  #knownLength(method) {
    const length = this.byteLength;
    if (length !== undefined) return length;
    const url = this.#name;
    if (this.#isClosed) throw fail({ code: "CLOSED", message: "The file is closed. Open it again.", url });
    const message = `${method}() needs the length of ${url}, which the server does not state. Use stream(), or serve ` +
      "the file with Content-Length.";
    throw fail({ code: "UNSUPPORTED", message, url });
  }

  /**
   * @param {number} start
   * @param {number | undefined} end
   * @param {AbortSignal | undefined} signal
   * @param {(reader: WasmFileReader) => Promise<Uint8Array<ArrayBuffer>>} read
   */
  async #read(start, end, signal, read) {
    const reader = callModule(() => this.#file.read(start, end, signal));
    try {
      return await settle(() => read(reader));
    } finally {
      callModule(() => reader.cancel());
    }
  }

  /**
   * @param {number} start
   * @param {number | undefined} end
   * @param {AbortSignal | undefined} signal The caller's, on which no listener may stay.
   * @param {AbortSignal} [stop] That of the stream.
   */
  async *#pieces(start, end, signal, stop) {
    const reader = callModule(() => this.#file.read(start, end, signal));
    const cancel = () => callModule(() => reader.cancel());
    stop?.addEventListener("abort", cancel);
    // The module only notices an abort while it reads.
    signal?.addEventListener("abort", cancel);
    try {
      for (let piece; (piece = await settle(() => reader.chunk()));) {
        yield piece;
        signal?.throwIfAborted();
      }
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener("abort", cancel);
      cancel();
    }
  }

  /**
   * @param {number} start
   * @param {number} end
   */
  #rangeReader(start, end) {
    const reader = callModule(() => this.#file.read(start, end));
    return {
      read: (/** @type {number} */ length) => settle(() => reader.fill(length)),
      cancel: () => callModule(() => reader.cancel()),
    };
  }
}
