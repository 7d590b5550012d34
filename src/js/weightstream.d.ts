/**
 * weightstream brings machine-learning model weights from a URL into a web app:
 * one tensor on demand or all of them in one stream, verified, in bounded memory.
 *
 * Ranges are half-open everywhere: `[start, end)`, in bytes unless another unit is named.
 */

/** A typed array of the kind that a tensor's dtype asks for. */
export type TensorData =
  | Float32Array<ArrayBufferLike> | Float64Array<ArrayBufferLike>
  | Int8Array<ArrayBufferLike> | Uint8Array<ArrayBufferLike>
  | Int16Array<ArrayBufferLike> | Uint16Array<ArrayBufferLike>
  | Int32Array<ArrayBufferLike> | Uint32Array<ArrayBufferLike>
  | BigInt64Array<ArrayBufferLike> | BigUint64Array<ArrayBufferLike>;

/**
 * Bytes that your own code provides, for instance from a bundle or a database.
 * An `ArrayBuffer` or a `Uint8Array` is one already.
 */
export interface ByteSource {
  readonly byteLength: number;
  /** The bytes `[start, end)`, exactly as many as asked for. */
  slice(start: number, end: number): BufferSource | Promise<BufferSource>;
}

/**
 * Where a model comes from. For a model in several local files, give all of them, in any order: the file that names the
 * others (its manifest, or any part of a split GGUF) is found among them. Files of the model that are missing are an error
 * that names them (`NOT_FOUND`), and so are files that do not belong to it (`INVALID_ARGUMENT`).
 *
 * Where the browser tells the folders of files (`webkitRelativePath`), a file is looked for in the folder that the manifest
 * gives, else by its name. Files that came with a chosen folder and are not in a model format, such as a README, are passed
 * over.
 */
export type Source = string | URL | Blob | ByteSource | readonly File[] | FileList;

/**
 * Options that are `undefined` have their default. A name or a value that is none of these is an error
 * (`INVALID_ARGUMENT`), here and in the options of every other call. Objects of other frames and windows are taken like
 * those of this one.
 */
export interface OpenOptions {
  /** Aborts the opening. Later calls take signals of their own. */
  signal?: AbortSignal | null | undefined;
  /** Called in place of `globalThis.fetch`. The body of the `Response` must be neither read nor locked. */
  fetch?: typeof globalThis.fetch | undefined;
  /**
   * Sent with every request to the origin of the URL that you opened, and to no other that a model names. Where that
   * origin redirects to another one, browsers hold back `Authorization` and take all other headers along. Any form that
   * `fetch` accepts; `Range` is not among them, since weightstream sets it.
   */
  headers?: HeadersInit | Iterable<readonly [string, string]> | undefined;
  /** As in `fetch`: sent to the origin of the URL that you opened, and to no other. */
  credentials?: RequestCredentials | undefined;
  /** Called while bytes arrive, at most ten times a second, and once at the end of each operation. */
  onProgress?: ((event: LoadProgress) => void) | undefined;
  /** Check whatever the format allows for the bytes that are read. Default: `true`. */
  verify?: boolean | undefined;
  /**
   * How many connections one operation may use at once, 1 to 16: it begins with one, and adds more only while that
   * raises the throughput. Default: 4.
   */
  concurrency?: number | undefined;
  /** Two wanted ranges closer than this many bytes are read as one. Default: 1 MiB. */
  coalesceGap?: number | undefined;
  /**
   * Where bytes that came from a URL are kept for the next load.
   *
   * - `"auto"`, the default: in the origin private file system. Where the browser has none, and where no worker can
   *   be started (in service workers, for example), in IndexedDB. In Chromium's private windows the origin private
   *   file system is in memory, where it takes memory and can be slower than a second download:
   *   nothing is cached there.
   * - `"opfs"`: in the origin private file system only, even if that is in memory.
   * - `"none"`: nowhere.
   * - An object: where that says.
   *
   * A cache that fails never fails a load. Whenever nothing is cached, or not where it should be, `stats.cacheError`
   * says why.
   *
   * Cached bytes are used as long as the server's ETag, else its Last-Modified date, is the same: one byte of each
   * file is requested to learn that. Without a connection they are used unchecked: when `navigator.onLine` is
   * `false`, or when the request fails and a `no-cors` request to the same URL fails, too. The latter is always made
   * by the browser's own `fetch`, also when you gave another. When it succeeds, the server has answered without CORS
   * headers, for example to say that a login has expired: then the load fails.
   *
   * Bytes of requests with credentials (any of your `headers`, or `credentials: "include"`) are kept apart by a hash
   * of these: they are never used for another token, nor without one. They are never used after an answer that
   * refuses the file, whatever the status; bytes of requests without credentials are used also when the server
   * answers with 429 or 5xx, or not within 5 seconds. A page that is isolated from other origins
   * (`crossOriginIsolated`) cannot tell a lost connection from an answer without CORS headers: there bytes with
   * credentials of other origins are used offline only when `navigator.onLine` is `false`. No page can where the
   * answer has `Cross-Origin-Resource-Policy: same-origin` and no CORS headers: send CORS headers with refusals, too.
   * After a logout, `deleteCached` or `clearCache` removes the bytes from the disk.
   *
   * What has a SHA-256 or BLAKE3 digest is found again under other URLs, in other models: tensors of a MiB or more,
   * by digests that the format has or that `digests` pins; and whole files, which were checked once, by those that a
   * manifest states or `digests` pins. For such a file the server is asked nothing: what it has there now does not
   * matter, the digest says what the file must be. With credentials, or a signature in the URL, the server is asked
   * whether the file may still be read, and only bytes that came with the same credentials are found. Should kept
   * bytes turn out to be damaged while it is read, the load fails with `CHANGED`, rather than mix in what may be of
   * another file; the next one fetches it.
   *
   * Files are kept by a worker. A bundler that does not look into `new URL(…, import.meta.url)` must be told to
   * bundle `weightstream/weightstream.worker.js` as an entry point of its own, beside the app's script.
   */
  cache?: "auto" | "opfs" | "none" | WeightCache | undefined;
  /**
   * Names the file at a URL in the cache, for URLs that differ although the file is the same. It is called with each
   * absolute URL of the model, and must return the same string for the same file, not empty and without control
   * characters; `listCached` lists it as the file's `url`. A function that throws, or returns anything else, is an
   * `INVALID_ARGUMENT`. Not with `inWorker`, which cannot call it.
   *
   * Default: the URL, without the parameters by which Amazon S3, Google Cloud Storage, Azure Storage and CloudFront
   * sign URLs, so that a new signature finds what an old one has loaded. Under a name other than its URL, a file is
   * treated as one that was loaded with credentials: its cached bytes are used only after the server has confirmed
   * the version and the permission to read it, or without a connection.
   */
  cacheKey?: ((url: string) => string) | undefined;
  /**
   * How many bytes one call may hold of tensors that it has not handed out yet; all that was prefetched counts as one.
   * Where there is no room, nothing more is read. A single tensor may be larger. Default: 256 MiB.
   */
  maxMemory?: number | undefined;
  /**
   * How many workers decode and digest, 0 to 16, so that the page is free and several cores help. Default: two less than
   * there are cores, at most 4. 0: all is done where `open` was called, but SHA-256, which the browser computes.
   *
   * They start once there is much to decode, or to check by SHA-256 or BLAKE3, serve all loaders, and end when there was
   * nothing to do for ten seconds. Where they cannot be started all is done where `open` was called, and
   * `stats.workersError` says why; what one that dies had is loaded again. Tensors come back by transfer; those that go `into` a `SharedArrayBuffer` are written there
   * by the workers, any other `into` is filled where `open` was called. What a bundler must be told stands at `cache`.
   */
  workers?: number | undefined;
  /**
   * Loads in a worker, which the loader has to itself, with its `workers` and its cache: the page has nothing to do but to take what
   * is finished, so that no part of a load holds up a tap or a frame. Default: `false`.
   *
   * Requests are that worker's: a `fetch`, `cache` or `cacheKey` of your own cannot be called from there (`INVALID_ARGUMENT`), and what the page has
   * put in the place of `globalThis.fetch` is not. Up to 8 MiB of tensors, beyond `maxMemory`, may be on their way to the page;
   * an `into` that is not shared is filled by a copy. Where the worker cannot be started all is done where `open` was called,
   * and `stats.workersError` says why.
   */
  inWorker?: boolean | undefined;
  /** What the model must be, whatever its files say. Checked also where `verify` is `false`. */
  digests?: PinnedDigests | undefined;
  /** When to try again after a broken connection, a stall, or an answer such as 503. */
  retry?: RetryOptions | undefined;
}

/**
 * A place of your own to keep bytes in: a folder, a database, another worker, or a `Map`, which is one as it is.
 *
 * Keys are at most 128 of `a` to `z`, digits and dots, so that they can be names of files; values are up to 1 MiB, a
 * little more for a file's URL. A key says how long its value is and what checksum it has: whatever `get` gives is
 * checked, so values may get lost, or be cut off by a crash, at any time, and are fetched again then. What a method
 * throws, or what it returns that is no such value, fails no load: `stats.cacheError` tells of it.
 *
 * Yours is what else a cache should do. Nothing is deleted to make room: only what is outdated or wrong is.
 * `listCached` and the like know nothing of it.
 */
export interface WeightCache {
  get(key: string): BufferSource | undefined | null | Promise<BufferSource | undefined | null>;
  /** The bytes are yours: they are not changed afterwards. */
  set(key: string, bytes: Uint8Array<ArrayBuffer>): unknown;
  delete(key: string): unknown;
  /** All of them; those that others have set are left alone. */
  keys(): Iterable<string> | Promise<Iterable<string>>;
}

/** A digest in hexadecimal, behind its algorithm. */
export type Digest = `${"sha256" | "blake3" | "crc32" | "crc32c"}:${string}`;

/** Where bytes have another digest, the load fails with `CHECKSUM`; a name that the model does not have is `NOT_FOUND`. */
export interface PinnedDigests {
  /**
   * By name: over the tensor's decoded bytes, of several components one after the other. Checked before the tensor is
   * handed out; `rows` of it are not.
   */
  tensors?: Readonly<Record<string, Digest>> | undefined;
  /**
   * By path in the model, file name or URL: over the stored bytes. Checked where all of a file is read: a manifest by
   * `open`, others at the end of `tensors()` over the whole model and by `verify()`.
   */
  files?: Readonly<Record<string, Digest>> | undefined;
}

/** What cannot pass (403, 404, a damaged file) is never tried again. Times are in milliseconds. */
export interface RetryOptions {
  /** Failures in a row that are borne, counted since bytes last arrived. Default: 6; 0 for none. */
  attempts?: number | undefined;
  /** The wait after the first failure; each further one doubles it. Default: 250. */
  baseDelay?: number | undefined;
  /** The longest wait, unless the server asks for a longer one. Default: 8000. */
  maxDelay?: number | undefined;
  /** A connection that brings nothing for so long is replaced. Default: 20000. */
  stallTimeout?: number | undefined;
}

/** A range of a file that has arrived: which bytes, of which file, over which connection. */
export interface ArrivedRange {
  /** The file's place in the model: the `shard` of its tensors. */
  readonly shard: number;
  readonly start: number;
  readonly end: number;
  /** A small number: which of the operation's connections brought it. */
  readonly connection: number;
}

export interface LoadProgress {
  /** The operation that makes progress. */
  readonly type: "loadTensor" | "tensors" | "prefetch" | "verify";
  /** Payload bytes that have arrived: those of the tensors as the file stores them. */
  readonly loaded: number;
  /** Payload bytes that the operation needs in all. */
  readonly total: number;
  readonly bytesPerSecond: number;
  /** An estimate, absent until there is something to base it on. */
  readonly secondsLeft?: number;
  /** The tensor whose bytes came last. */
  readonly tensor?: string;
  /** Whether all bytes since the event before this one came from the cache rather than from the source; where none came, as before. */
  readonly fromCache: boolean;
  /** The last event of the operation. */
  readonly done: boolean;
  /** On the last event of a load of everything: what every file as a whole was checked by. */
  readonly verified?: Exclude<Verified, null>;
  /** What has arrived since the event before this one. */
  readonly ranges: readonly ArrivedRange[];
}

export interface Metadata {
  /** `"apr"`, `"safetensors"` … */
  readonly format: string;
  /** The version of the format, as the file states it. */
  readonly version: string;
  /** What the model says of itself. Integers beyond 2^53 are bigints. */
  readonly metadata: Record<string, unknown>;
}

export interface ComponentInfo {
  /** `"data"` for a dense tensor; `"values"`, `"indices"`, `"indptr"` … for a sparse one. */
  readonly role: string;
  readonly dtype: string;
  /** Bytes once decoded; `undefined` where the file does not say. */
  readonly byteLength: number | undefined;
  /** Bytes as stored. */
  readonly storedByteLength: number;
  /** `"raw"`, `"lz4"` … */
  readonly encoding: string;
}

export interface TensorInfo {
  readonly name: string;
  /** As SafeTensors and GGUF spell it: `"F32"`, `"BF16"`, `"Q8_0"` … */
  readonly dtype: string;
  /** Row-major: outermost dimension first. */
  readonly shape: readonly number[];
  /** `"dense"`, `"sparse_csr"`, `"sparse_coo"` … */
  readonly layout: string;
  /** Bytes of the tensor once decoded, over all its components. */
  readonly byteLength: number;
  /** Which file of the model holds it, counted from 0. */
  readonly shard: number;
  readonly components: readonly ComponentInfo[];
  /** What else the format says of this tensor. Integers beyond 2^53 are bigints. */
  readonly attributes: Record<string, unknown>;
}

export interface TensorComponent {
  readonly dtype: string;
  readonly data: TensorData;
}

/** How a tensor's bytes were checked; `null` where the format has nothing to check them by. */
export type Verified = "crc32" | "crc32c" | "xxh3" | "sha256" | "blake3" | null;

export interface Tensor {
  readonly name: string;
  readonly dtype: string;
  /** With `rows`, the shape of what was loaded. */
  readonly shape: readonly number[];
  readonly layout: string;
  /**
   * A typed array over a buffer that is yours and exactly as long as the tensor.
   * 16-bit floats come as `Uint16Array`, quantized blocks as `Uint8Array`.
   * `undefined` for a tensor of several components: see `components`.
   */
  readonly data: TensorData | undefined;
  readonly components: ReadonlyMap<string, TensorComponent>;
  readonly verified: Verified;
}

export interface LoadTensorOptions {
  signal?: AbortSignal | null | undefined;
  /**
   * Write the bytes here instead of into a new buffer. Must be exactly as long as what is loaded, and stay as it is until
   * the call has settled: memory that is detached or shrunk is `INVALID_ARGUMENT`.
   */
  into?: ArrayBufferLike | ArrayBufferView | undefined;
  /** Only rows `[first, end)` of the outermost dimension. */
  rows?: readonly [first: number, end: number] | undefined;
}

export interface TensorsOptions {
  /** Only these. Default: all. */
  names?: Iterable<string> | undefined;
  signal?: AbortSignal | null | undefined;
}

/** What has been done so far, over the whole life of a loader. */
export interface LoaderStats {
  readonly requests: number;
  /** Body bytes that came from the source, headers and indexes included. */
  readonly bytesReceived: number;
  /** Bytes that were kept from an earlier load. */
  readonly bytesFromCache: number;
  /**
   * Why something is not kept for the next load, or not where it should be: the quota, a server that does not say whether a
   * file has changed, a private window, a worker that cannot be started. `undefined` where all is well, with
   * `cache: "none"`, and for a model that is not read from a URL.
   */
  readonly cacheError: string | undefined;
  /**
   * Why workers that were asked for (`workers`, `inWorker`) and needed do not do the work, which is done where `open` was
   * called instead; `undefined` where all is well or nothing was there for them to do.
   */
  readonly workersError: string | undefined;
  /** Bytes of tensors that were handed out. */
  readonly bytesDecoded: number;
  /** The size of the WebAssembly memory now. It never shrinks, so this is its peak. */
  readonly wasmMemoryBytes: number;
}

export class StreamingLoader implements Disposable {
  private constructor();
  /** Reads the head of the model: a request or two, whatever its size. */
  static open(source: Source, options?: OpenOptions): Promise<StreamingLoader>;
  loadMetadata(): Promise<Metadata>;
  /** Every tensor of the model, in file order. Reads the heads of all its files. */
  loadIndex(): Promise<readonly TensorInfo[]>;
  /** Loads one tensor, reading only its bytes. */
  loadTensor(name: string, options?: LoadTensorOptions): Promise<Tensor>;
  /**
   * Starts loading tensors that `loadTensor` will be asked for soon, and gives way to it. Errors surface there.
   */
  prefetch(names: Iterable<string>): void;
  /**
   * Loads many tensors in few long requests and yields each as it completes: those that one
   * connection brings in file order. Over the whole model it also checks the checksums of the files, and throws at the end
   * where one does not match.
   *
   * Nothing is read before the first tensor is asked for. An abort, `close()`, and `return()` of the iterator (which
   * `break` calls) stop its requests at once, also while nobody asks for the next tensor.
   */
  tensors(options?: TensorsOptions): AsyncIterableIterator<Tensor>;
  /** Reads and checks the whole model, keeping nothing. Resolves to what was checked by. */
  verify(options?: { signal?: AbortSignal | null | undefined }): Promise<Verified>;
  readonly stats: LoaderStats;
  /** Stops every request and frees the memory, both at once. Calling it twice is harmless; `stats` stays readable. */
  close(): void;
  [Symbol.dispose](): void;
}

/** A file that is kept, whole or in part. One that was loaded with several credentials is kept for each of them. */
export interface CachedFile {
  /** Its URL, without the signature; or what `cacheKey` returned. */
  readonly url: string;
  /** What it takes on the disk. */
  readonly cachedBytes: number;
  /** The length of the whole file, where the server told it. */
  readonly byteLength: number | undefined;
  readonly lastUsed: Date;
}

/** Every file that is kept for this origin; none where the browser has nothing to keep files in. */
export function listCached(): Promise<readonly CachedFile[]>;
/** What all of them take on the disk. */
export function cachedBytes(): Promise<number>;
/**
 * Forgets one file, whatever the credentials that it was loaded with: by its URL, or by its `url` in `listCached`. A model
 * in several files has several.
 */
export function deleteCached(url: string | URL): Promise<void>;
/** Forgets all of them. */
export function clearCache(): Promise<void>;

/** Stable codes of {@link LoadError}. */
export type LoadErrorCode =
  /** No response arrived, or the connection broke. */
  | "NETWORK"
  /** The server responded with an HTTP status that is not a success. */
  | "HTTP"
  /** The response to a Range request is neither that range nor the whole file. */
  | "RANGE_UNSUPPORTED"
  /** The file changed after the load began. */
  | "CHANGED"
  /** The file, or a response, ends too early. */
  | "TRUNCATED"
  /** The bytes do not match the checksum or digest that was expected. */
  | "CHECKSUM"
  /** The bytes violate the rules of their format. */
  | "FORMAT"
  /** A size or count exceeds what the loader allows or can allocate. */
  | "LIMIT"
  /** The format, or a feature that it uses, is not supported by this version or by this browser. */
  | "UNSUPPORTED"
  /** There is no tensor or file of this name. */
  | "NOT_FOUND"
  /** An argument or an option is invalid. */
  | "INVALID_ARGUMENT"
  /** The loader was closed. */
  | "CLOSED"
  /** The operating system or the browser's storage failed to read or write. */
  | "IO"
  /** A bug in weightstream. */
  | "INTERNAL";

/**
 * The one error class. Its message says what was wrong, where, and what to do about it.
 *
 * Whatever fails, every promise settles. Should the WebAssembly module itself end, all calls of all loaders reject: with
 * `LIMIT` where it ran out of memory, else with `INTERNAL`, and the exception as the `cause`. The next `open` starts a new one.
 */
export class LoadError extends Error {
  private constructor();
  readonly name: "LoadError";
  readonly code: LoadErrorCode;
  /** The file it happened in. */
  readonly url: string | undefined;
  readonly tensor: string | undefined;
  /** The bytes `[start, end)` of the file that it is about. */
  readonly range: readonly [start: number, end: number] | undefined;
  /** The HTTP status, where there was one. */
  readonly status: number | undefined;
  readonly cause?: unknown;
}

/**
 * Makes the WebAssembly module ready. `StreamingLoader.open` does it by itself; call this first where the
 * `.wasm` file lies elsewhere or its bytes are at hand.
 */
export function init(source?: string | URL | Request | Response | BufferSource | WebAssembly.Module): Promise<void>;
