/**
 * weightstream loads machine-learning model weights from a URL into a web app: a single tensor on demand, or all
 * tensors as one stream, verified and in bounded memory.
 *
 * All ranges are half-open, `[start, end)`. Sizes are in bytes and times in milliseconds unless stated otherwise.
 *
 * A promise that rejects, rejects with a {@link LoadError}, or with the `reason` of the signal that aborted the call.
 *
 * @module weightstream
 */

/** Bytes in an `ArrayBuffer`. TypeScript before 5.7 does not have `Uint8Array<ArrayBuffer>`. */
export type OwnBytes = ReturnType<Uint8ArrayConstructor["of"]>;

// The objects of classes that only some platforms have: the `lib` of TypeScript may not declare them, as that of an app
// for Node.js. A generic type of the name would be circular where an app declares a global variable of such a type.
type FileListInstance =
  typeof globalThis extends { readonly FileList: { readonly prototype: infer T } } ? T : never;
type CryptoKeyInstance =
  typeof globalThis extends { readonly CryptoKey: { readonly prototype: infer T } } ? T : never;
type FileHandleInstance =
  typeof globalThis extends { readonly FileSystemFileHandle: { readonly prototype: infer T } } ? T : never;
type FolderHandleInstance =
  typeof globalThis extends { readonly FileSystemDirectoryHandle: { readonly prototype: infer T } } ? T : never;
type ModuleInstance =
  typeof globalThis extends { readonly WebAssembly: { readonly Module: { readonly prototype: infer M } } } ? M : never;
type WorkerInstance =
  typeof globalThis extends { readonly Worker: { readonly prototype: infer T } } ? T : object;

/** Bytes in memory, as `BufferSource` of the DOM. */
export type BinaryData = ArrayBuffer | ArrayBufferView;

/** A handle of a local file (`FileSystemFileHandle`), in browsers. */
export type FileHandle = FileHandleInstance;

/** A handle of a folder (`FileSystemDirectoryHandle`), in browsers. */
export type FolderHandle = FolderHandleInstance;

/**
 * A model whose bytes your own code provides, for example from a bundle or a database.
 * `ArrayBuffer` and `Uint8Array` implement this interface.
 */
export interface ByteSource {
  /** The total number of bytes. */
  readonly byteLength: number;
  /**
   * Returns the bytes `[start, end)`, exactly `end - start` of them. If it throws, the call rejects with `IO`, and the
   * exception is the `cause`. It is not called again for these bytes.
   *
   * `signal` aborts when nothing waits for the bytes any more.
   */
  slice(start: number, end: number, options: { readonly signal: AbortSignal }): BinaryData | Promise<BinaryData>;
}

/** A `DataTransferItem`: a file or folder that was dropped or pasted. */
export interface DroppedItem {
  /** `"file"` for files and folders. */
  readonly kind: string;
  /** Returns the file. */
  getAsFile(): File | null;
}

/**
 * Where one file is loaded from: a URL, a local file, bytes, or a `Response`. In Node.js, Deno and Bun also a path.
 *
 * **Handles and dropped items.** A handle needs the permission to read its file: if it was stored, call its
 * `requestPermission()` when the user clicks. The items of a drop are empty after its event: pass them before the first
 * `await` of the event listener. A dropped text is an error (`INVALID_ARGUMENT`).
 *
 * **Response.** Its status must be a success, otherwise the call rejects with `HTTP`. Its body must be unread
 * (`INVALID_ARGUMENT`), complete, and at the start of the file. It is read once, from its start to its end, like the
 * body of a server that ignores Range requests: a call that needs earlier bytes again rejects with `UNSUPPORTED`, and a
 * broken connection is not resumed. It is not cached. Other files of the model are resolved relative to its `url`, and
 * are requested. It cannot be combined with `inWorker`. To load tensors in any order, pass a URL.
 */
export type FileSource = string | URL | Blob | ByteSource | FileHandle | DroppedItem | Response;

/**
 * Where a model is loaded from: a {@link FileSource}, several files, or a folder. In Node.js, Deno and Bun, a folder
 * may be a path, which cannot be combined with `inWorker`.
 *
 * For a model that consists of several local files, pass all of them, in any order. The file that names the others (the
 * manifest, or any part of a split GGUF) is detected. If files of the model are missing, `open` rejects with
 * `NOT_FOUND` and names them; if a file does not belong to the model, it rejects with `INVALID_ARGUMENT`.
 *
 * Files of a folder are looked up by the path in the manifest, then by name. Files of a folder that are not in a model
 * format, such as a README, are ignored; all other files are, if the names of the files leave no choice which model is
 * meant. A folder is a `FileSystemDirectoryHandle`, a dropped folder, or files with a
 * `webkitRelativePath`. The folders in a handle or in a dropped folder are read too, up to 10,000 files, without names
 * that start with a dot.
 */
export type Source =
  | FileSource
  | FolderHandle
  | FileListInstance
  | ArrayLike<DroppedItem>
  | readonly (File | FileHandle | FolderHandle)[];

/** Options of calls that take only a signal. */
export interface CallOptions {
  /** Aborts the call, which then rejects with the `reason` of the signal. Default: none. */
  signal?: AbortSignal | null | undefined;
}

/** An adapter of {@link OpenOptions.adapters}. */
export interface AdapterOptions {
  /**
   * The file of the adapter, as {@link StreamingLoader.open} accepts sources, except a `Response`. Requests to the
   * origin of the model have its headers and credentials; the cache is that of the model.
   */
  source: Source;
  /** What the updates are multiplied by, in addition to what the adapter states. Default: 1. */
  scale?: number | undefined;
  /**
   * The content of the adapter's `adapter_config.json`, which PEFT needs. Default: the file of that name beside the
   * adapter.
   */
  config?: object | undefined;
}

/**
 * Options of {@link StreamingLoader.open}.
 *
 * Here and in the options of all other calls, an option that is `undefined` has its default value, and an unknown
 * option or an invalid value is an error (`INVALID_ARGUMENT`). Objects from other frames and windows are accepted.
 */
export interface OpenOptions {
  /** Aborts the opening. The other calls have signals of their own. Default: none. */
  signal?: AbortSignal | null | undefined;
  /**
   * Called instead of `globalThis.fetch`. It must return a `Response` whose body is neither read nor locked. If it
   * rejects with a {@link LoadError}, such as that of `weightstream/fetch`, the call rejects with the same error,
   * without a retry. Default: `globalThis.fetch`.
   */
  fetch?: typeof globalThis.fetch | undefined;
  /**
   * Headers of every request to the origin of the URL that you open. Requests to other origins that the model names do
   * not get them. If that origin redirects to another one, browsers remove `Authorization` and keep all other headers.
   * Every form that `fetch` accepts is accepted. `Range` is an error, because weightstream sets it. Default: none.
   */
  headers?: ConstructorParameters<typeof Headers>[0] | Iterable<readonly [string, string]> | undefined;
  /**
   * The credentials mode, as in `fetch`, of requests to the origin of the URL that you open. It does not apply to
   * requests to other origins. Default: that of `fetch`.
   */
  credentials?: "omit" | "same-origin" | "include" | undefined;
  /**
   * Called once the total of an operation is known, while bytes arrive, at most ten times a second, and once at the end
   * of each operation. To add up several loaders and files, see {@link combineProgress}. Default: none.
   */
  onProgress?: ((event: LoadProgress) => void) | undefined;
  /** Whether to verify all checksums and digests that the format has for the bytes that are read. Default: `true`. */
  verify?: boolean | undefined;
  /**
   * The maximum number of connections that one operation uses at the same time, from 1 to 16. An operation starts with
   * one connection and opens more only while they increase the throughput. Default: 4.
   */
  concurrency?: number | undefined;
  /** Two ranges that are less than this many bytes apart are read with one request. Default: 1 MiB. */
  coalesceGap?: number | undefined;
  /**
   * Where to cache bytes that are loaded from a URL.
   *
   * - `"auto"` (default): in the origin private file system (OPFS). Browsers without OPFS, and contexts that cannot
   *   start a worker (such as service workers), use IndexedDB. In Chromium's private windows nothing is cached,
   *   because OPFS is in memory there, where it takes memory and can be slower than a second download.
   * - `"opfs"`: only in OPFS, even if it is in memory.
   * - `"none"`: no caching.
   * - A {@link FolderHandle}: a folder of the user, of `showDirectoryPicker()` with `mode: "readwrite"`. A complete
   *   file has its name there, below folders for the host and the path of the URL, so that other programs can use it.
   *   Parts of files are in `.weightstream` in this folder. weightstream never asks for a permission that is missing,
   *   and never replaces or deletes a file that is not its own; the load then continues from the network. Functions of
   *   `weightstream/folders` remember the folder, ask for the permission, and list and delete what is in it.
   * - A {@link StorageBucketOption}: a storage bucket. Browsers other than Chromium have none; `"auto"` is used there.
   * - A {@link WeightCache}: your own storage.
   *
   * A cache that fails does not fail a load. If bytes are not cached, or not in the preferred place, `stats.cacheError`
   * gives the reason.
   *
   * **Validation.** Cached bytes are used as long as the ETag of the server, or else its Last-Modified date, is
   * unchanged. One byte of each file is requested to check that. Offline, they are used without the check: when
   * `navigator.onLine` is `false`, or when the request fails and a `no-cors` request to the same URL fails as well. The
   * `no-cors` request always uses the browser's own `fetch`, even if you pass another. If it succeeds, the server has
   * responded without CORS headers, for example because a login has expired, and the load fails.
   *
   * **Credentials.** Bytes of requests with credentials (any of your `headers`, or `credentials: "include"`) are cached
   * separately for each value of these credentials, under a hash of them. They are never used for other credentials or
   * without credentials, and never after a response that denies access to the file, whatever its status. Bytes of
   * requests without credentials are also used when the server responds with 429 or 5xx, or does not respond within
   * 5 seconds. A page that is isolated from other origins (`crossOriginIsolated`) cannot distinguish a lost connection
   * from a response without CORS headers. On such a page, bytes with credentials from other origins are used offline
   * only when `navigator.onLine` is `false`. No page can distinguish the two if the response has
   * `Cross-Origin-Resource-Policy: same-origin` and no CORS headers: send CORS headers with error responses too. After
   * a logout, remove the bytes from the disk with `deleteCached` or `clearCache`.
   *
   * **Deduplication.** Bytes that have a SHA-256 or BLAKE3 digest are found under other URLs and in other models too.
   * This applies to tensors of at least 1 MiB, by the digests of the format or of `digests`, and to whole files that
   * have been verified, by the digests of a manifest or of `digests`. For such a file no request is made: the digest
   * determines its content. With credentials, or with a signature in the URL, the server is asked whether the file may
   * still be read, and only bytes that were loaded with the same credentials are used. If cached bytes prove to be
   * damaged while they are read, the load fails with `CHANGED` instead of mixing the bytes of two files; the next load
   * fetches the file again.
   *
   * **Bundlers.** A worker reads and writes the cache. With a bundler that does not support
   * `new URL(…, import.meta.url)`, import `weightstream/inline`, or pass the URL of the worker to `init`.
   */
  cache?: "auto" | "opfs" | "none" | FolderHandle | StorageBucketOption | WeightCache | undefined;
  /**
   * Returns the name under which the file at a URL is cached, for URLs that differ although the file is the same. It is
   * called with each absolute URL of the model. It must always return the same string for the same file, not empty and
   * without control characters. `listCached` reports this name as the `url` of the file. If the function throws or
   * returns anything else, the load rejects with `INVALID_ARGUMENT`. It cannot be combined with `inWorker`.
   *
   * Default: the URL without the parameters by which Amazon S3, Google Cloud Storage, Azure Storage and CloudFront sign
   * URLs, so that a URL with a new signature finds the bytes that were loaded with an old one. A file that is cached
   * under a name other than its URL is treated like one that was loaded with credentials: its cached bytes are used
   * only after the server has confirmed the version and the permission to read it, or offline.
   */
  cacheKey?: ((url: string) => string) | undefined;
  /**
   * Whether files are read from Cross-Origin Storage, a proposed storage of the browser that all sites share, and
   * stored there. No browser has it yet without an extension or a flag; everywhere else, the option changes nothing.
   *
   * - `true`: files that are there are read from it, and others are stored once all their bytes were loaded.
   * - `"read"`: files are read from it, and nothing is stored.
   * - `false` (default): it is not used.
   *
   * Only files whose SHA-256 is known before the load are looked up: from the hub of an `hf:` address, the entry of a
   * published model, `digests.files`, the `digest` of `openFile`, or `signature`. A file that is found is compared with
   * its SHA-256 before any byte is used, and is not copied to the cache. Files that this site's own cache has are read
   * from there. Files that are requested with `headers`, `credentials: "include"` or the `token` of a hub are neither
   * looked up nor stored.
   *
   * Files are stored in the background, from the cache, for all sites: anybody who knows the SHA-256 of a file may read
   * it. Storing goes on after `close()`, and stops with the page: a file that is not complete is never stored. With
   * `cache: "none"`, nothing is stored. `stats.crossOriginStorage` says what was found and stored, and why not. A
   * failure never fails the load.
   */
  crossOriginStorage?: boolean | "read" | undefined;
  /**
   * Returns the URL of a file that the opened one names by a path: a shard, a part of a split GGUF, external data of
   * ONNX. It is called with the path in the model and with the URL that is requested otherwise: in the folder of the
   * opened file, with the query of the opened URL. A relative URL is resolved against the opened one; `undefined`
   * stands for the given URL. `headers` and `credentials` still go only to the origin of the opened URL. With `false`,
   * these files are requested without the query. If the function throws or returns anything else, the load rejects
   * with `INVALID_ARGUMENT`. A function cannot be combined with `inWorker`.
   *
   * Default: the query is kept, because a signature or token of a folder is needed for all of its files.
   */
  partUrl?: ((path: string, url: string) => string | undefined) | false | undefined;
  /**
   * Mirrors: other http(s) URLs of the opened file. The other files of the model are found relative to each of them.
   * The opened URL is used while it works. If it fails, or a range from it is late (slower than half of its peers, and
   * by more than 0.2 s), the rest comes from a mirror; at most 3 % of the bytes are received twice because of late
   * ranges. `stats.mirrors` says what each address has sent, and why it is not used.
   *
   * A mirror must state the length of the file (`Content-Range`, exposed across origins), which must be the same, and
   * bytes of it are compared before others are used. This is a check, no proof: use `digests` or a signature for a
   * mirror that you do not trust. `headers`, `credentials` and tokens are sent only to the origin of the opened URL.
   * Files are cached under the opened URL. Only for a source that is a URL (`INVALID_ARGUMENT` otherwise). Default:
   * none.
   */
  mirrors?: Iterable<string | URL> | undefined;
  /**
   * The content of the model's `config.json`. The tensors of some quantized layouts are ambiguous without it: it states
   * the number of bits of MLX, and the zero points of GPTQ. Default: if a tensor is ambiguous, the file of that name
   * beside the model is requested.
   */
  config?: object | undefined;
  /**
   * LoRA adapters whose updates are added, in this order, to the weights that they were trained for: adapters of PEFT,
   * of kohya's scripts, and in GGUF. These tensors have the layout `"adapted"` and the attribute `adapters`, and load
   * in their dtype, or in that of `as`; they become floats while they stream, with one more tensor in memory. Only they
   * are read with the adapter, so that another adapter needs only them again. `toBlob()` is not available. Default:
   * none.
   */
  adapters?: Iterable<AdapterOptions> | undefined;
  /**
   * The maximum number of bytes that one call holds of tensors that are not yet delivered to the app. All prefetched
   * tensors together count as one call. At the limit, reading pauses. A single tensor may be larger. Default: 256 MiB.
   */
  maxMemory?: number | undefined;
  /**
   * The maximum number of workers that decode and compute digests, from 0 to 16, which keeps the page responsive and
   * uses several cores. With 0, the thread that called `open` does all work, except that the browser computes SHA-256.
   * Default: the number of cores minus two, at most 4, and at least 1 unless there is only one core.
   *
   * The workers start when there is much to decode, or to verify by SHA-256 or BLAKE3. All loaders share them, and they
   * end after ten idle seconds. If they cannot start, the thread that called `open` does the work, and
   * `stats.workersError` gives the reason. The work of a worker that crashes is repeated. Workers transfer their
   * tensors; they write directly `into` a `SharedArrayBuffer`, and any other `into` is filled by the thread that called
   * `open`. For bundlers, see `cache`.
   */
  workers?: number | undefined;
  /**
   * Whether the whole load runs in a dedicated worker, together with its `workers` and its cache. The page then only
   * receives finished tensors, so a load delays neither user input nor animation frames. Default: `false`.
   *
   * The worker makes all requests. Your own `fetch`, `cache`, `cacheKey` or `partUrl` cannot be called from
   * there (`INVALID_ARGUMENT`), and a replaced `globalThis.fetch` of the page has no effect. Up to 8 MiB of tensors, in
   * addition to `maxMemory`, may be in transit to the page. An `into` that is not shared is filled by a copy. If the
   * worker cannot start, the thread that called `open` does the work, and `stats.workersError` gives the reason.
   */
  inWorker?: boolean | undefined;
  /** The digests that the model must have. They are checked even if `verify` is `false`. Default: none. */
  digests?: PinnedDigests | undefined;
  /**
   * The signature of the model (OpenSSF Model Signing). Every file must then be what was signed: it is read as a whole
   * and compared before anything of it is returned. A file that is not signed, or is another one, is `SIGNATURE`.
   * Default: none.
   */
  signature?: SignatureOptions | undefined;
  /** How to retry after a broken connection, a stall, or a temporary error response such as 503. */
  retry?: RetryOptions | undefined;
  /**
   * The hub that addresses such as `hf:owner/name/path` refer to. With `null`, the URLs of a hub are ordinary ones: the
   * hub is not asked for commits and digests. Default: the Hugging Face Hub, without a token.
   */
  hub?: HubOptions | null | undefined;
}

/** Where the signature of a model is, and whom to trust: the owner of a key, or those whom a certificate names. */
export type SignatureOptions = SignatureByKey | SignatureByCertificate;

/** Where the signature of a model is. */
export interface SignatureLocation {
  /** The URL of the signature, a Sigstore bundle such as `model.sig`. It may be an address on a hub. */
  url: string | URL;
  /**
   * The path of the file that is opened, in the signed folder. Default: the part of its URL below the folder of `url`,
   * or else the name of the file. The other files of the model are found relative to it.
   */
  path?: string | undefined;
}

/** A signature by a key. */
export interface SignatureByKey extends SignatureLocation {
  /**
   * The public key of the signer, for ECDSA with P-256, P-384 or P-521: in PEM (`-----BEGIN PUBLIC KEY-----`), as a
   * JWK, as the bytes of a SubjectPublicKeyInfo, or as a `CryptoKey` with the usage `verify`. Put it into the code of
   * your app: a key that comes from the server of the model proves nothing.
   */
  publicKey: string | PublicJwk | BinaryData | CryptoKeyInstance;
  /** Not with a public key: a signature is verified in one of the two ways. */
  certificateChain?: undefined;
}

/** A public key as a JSON Web Key: `JsonWebKey` of the DOM. */
export interface PublicJwk {
  /** The type of the key: `"EC"`. */
  kty?: string;
  /** The curve: `"P-256"`, `"P-384"` or `"P-521"`. */
  crv?: string;
  /** The x coordinate, in base64url. */
  x?: string;
  /** The y coordinate, in base64url. */
  y?: string;
  /** The name of the key. It is not used. */
  kid?: string;
  /** The algorithm. It is not used. */
  alg?: string;
  /** What the key is for. It is not used. */
  use?: string;
  /** What the key is for. It is not used. */
  key_ops?: string[];
  /** Whether the key may be exported. It is not used. */
  ext?: boolean;
}

/** A signature by a key that a certificate names. */
export interface SignatureByCertificate extends SignatureLocation {
  /**
   * The certificates of the roots that are trusted to name signers: in PEM (`-----BEGIN CERTIFICATE-----`, one or
   * more), as the bytes of one in DER, or as an array of these. The signature contains the other certificates. Put it
   * into the code of your app: a root that comes from the server of the model proves nothing.
   */
  certificateChain: string | BinaryData | readonly (string | BinaryData)[];
  /** Not with certificates: a signature is verified in one of the two ways. */
  publicKey?: undefined;
}

/**
 * A hub with the paths of the Hugging Face Hub. A source may be `hf:owner/name@revision/path`, without `@revision` for
 * the branch `main`, and without the path for the model of a repository, if it has only one; or the URL of a file,
 * `https://huggingface.co/owner/name/resolve/revision/path`. The revision is pinned to a commit for the life of the
 * loader, and calls that read whole files verify the SHA-256 that the hub states.
 */
export interface HubOptions {
  /** The URL of the hub. Default: `https://huggingface.co`. */
  endpoint?: string | URL | undefined;
  /**
   * The access token for private and gated repositories. It is sent to the hub only, never to the storage that it
   * redirects to. Everybody who can read the page can read it. Default: none.
   */
  token?: string | undefined;
}

/**
 * A storage bucket of the origin as the cache (`navigator.storageBuckets`, in Chromium). The browser evicts it alone,
 * so an app that has a bucket for each model loses one model and not all. `navigator.storageBuckets.delete(name)`
 * deletes it, and `navigator.storageBuckets.open(name, { quota })`, before the load, limits it.
 */
export interface StorageBucketOption {
  /** The name: 1 to 64 lower-case letters, digits, `-` and `_`, of which the first is a letter or a digit. */
  readonly storageBucket: string;
}

/**
 * Your own storage for cached bytes: a folder, a database, another worker, or a plain `Map`, which implements this
 * interface.
 *
 * A key consists of at most 128 characters from `a` to `z`, digits and dots, so it is a valid file name. A value has up
 * to 1 MiB plus the length of the URL of its file. The key contains the length and the checksum of its value, and every
 * value that `get` returns is checked. Values may therefore get lost or be truncated by a crash at any time; they are
 * fetched again. If a method throws or returns a value of another type, or if `get` returns other bytes than were
 * stored, the load continues and `stats.cacheError` gives the reason.
 *
 * If `set` throws a `QuotaExceededError`, the file that was used least recently is deleted, and the value is set again.
 * Files that were used since this storage was first used are never deleted. Apart from that, weightstream deletes only
 * values that are outdated or invalid. `listCached`, `cachedBytes`, `deleteCached` and `clearCache` do not cover this
 * storage.
 */
export interface WeightCache {
  /** Returns the value of a key, or `undefined` or `null` if there is none. */
  get(key: string): BinaryData | undefined | null | Promise<BinaryData | undefined | null>;
  /** Stores a value. The bytes belong to you: weightstream does not change them afterwards. */
  set(key: string, bytes: OwnBytes): unknown;
  /** Deletes a value. A key that does not exist is not an error. */
  delete(key: string): unknown;
  /**
   * Returns all keys, or only those that begin with `prefix`. Keys that weightstream did not set are ignored.
   */
  keys(prefix?: string): Iterable<string> | Promise<Iterable<string>>;
}

/** An algorithm and a digest in hexadecimal, for example `"sha256:9f86d08…"`. */
export type Digest = `${"sha256" | "blake3" | "crc32" | "crc32c"}:${string}`;

/**
 * The digests that a model must have. If the bytes have another digest, the call rejects with `CHECKSUM`; if the model
 * has no tensor or file of a name, with `NOT_FOUND`.
 */
export interface PinnedDigests {
  /**
   * Digests by tensor name, over the decoded bytes; for a tensor of several components, over their concatenation. The
   * digest is checked before the tensor is delivered. It is not checked when only some `rows` are loaded.
   */
  tensors?: Readonly<Record<string, Digest>> | undefined;
  /**
   * Digests by path in the model, file name or URL, over the stored bytes. A digest is checked when the whole file is
   * read: that of a manifest by `open`, others at the end of `verify()` and of `tensors()` over the whole model.
   */
  files?: Readonly<Record<string, Digest>> | undefined;
}

/**
 * How temporary errors are retried. Permanent errors (403, 404, a damaged file) are never retried. Times are in
 * milliseconds.
 */
export interface RetryOptions {
  /** Maximum number of consecutive failures, counted since bytes last arrived. 0 disables retries. Default: 6. */
  attempts?: number | undefined;
  /** The delay after the first failure. It doubles with each further failure. Default: 250. */
  baseDelay?: number | undefined;
  /** The maximum delay, unless the server asks for a longer one. Default: 8000. */
  maxDelay?: number | undefined;
  /** A connection that delivers no bytes for this long is replaced. Default: 20000. */
  stallTimeout?: number | undefined;
}

/** A byte range of a file that has arrived. */
export interface ArrivedRange {
  /** The index of the file in the model, as in {@link TensorInfo.shard}. */
  readonly shard: number;
  /** The first byte of the range in the file. */
  readonly start: number;
  /** The end of the range in the file, exclusive. */
  readonly end: number;
  /** The index, from 0, of the connection of the operation that delivered the range. */
  readonly connection: number;
}

/** The progress of one operation. */
export interface LoadProgress {
  /** The operation. */
  readonly type: "loadTensor" | "tensors" | "prefetch" | "verify" | "file";
  /** The number of the operation: all its events have it, and those of no other operation of this page. */
  readonly operation: number;
  /**
   * Payload bytes that have arrived: bytes of tensors, as stored in the file. A tensor that is or was prefetched starts
   * with the bytes that have arrived already.
   */
  readonly loaded: number;
  /** Payload bytes that the operation needs in total. */
  readonly total: number;
  /** The current rate at which payload bytes arrive. */
  readonly bytesPerSecond: number;
  /** The estimated remaining time in seconds. Absent until an estimate is possible. */
  readonly secondsLeft?: number;
  /** The name of the tensor whose bytes arrived last. */
  readonly tensor?: string;
  /**
   * Whether all bytes since the previous event came from the cache rather than from the source. If no bytes arrived,
   * the value of the previous event.
   */
  readonly fromCache: boolean;
  /** Whether this is the last event of the operation, which one that fails or is aborted has too. */
  readonly done: boolean;
  /**
   * How the operation has ended: `"done"`; `"failed"`, and its call rejects; or `"aborted"`, by its signal, `close()`,
   * or the end of an iteration. Only on the last event.
   */
  readonly outcome?: "done" | "failed" | "aborted";
  /** What {@link StreamingLoader.verify} resolves to. Only on the last event of a load of the whole model. */
  readonly verified?: Exclude<Verified, null>;
  /** The ranges that have arrived since the previous event. */
  readonly ranges: readonly ArrivedRange[];
}

/** The progress of several operations together. */
export interface CombinedProgress {
  /** The bytes that have arrived. It never decreases. */
  readonly loaded: number;
  /** The bytes that all operations need which have begun so far. It equals `loaded` when all of them have ended. */
  readonly total: number;
  /** The current rate at which the bytes arrive. */
  readonly bytesPerSecond: number;
  /** The estimated remaining time in seconds. Absent until an estimate is possible. */
  readonly secondsLeft?: number;
  /** Whether all operations that have begun have ended. */
  readonly done: boolean;
}

/**
 * Returns a listener to pass as `onProgress` to any number of loaders and files. It adds up all their operations, and
 * calls `onProgress` at most ten times a second and whenever all of them have ended.
 *
 * The total grows when another operation begins. An operation that is aborted or fails counts with the bytes that have
 * arrived. Prefetching is not counted, because `loadTensor` reports the bytes of prefetched tensors.
 */
export function combineProgress(onProgress: (event: CombinedProgress) => void): (event: LoadProgress) => void;

/** The format and the metadata of a model. */
export interface Metadata {
  /** The name of the format: `"apr"`, `"safetensors"` … */
  readonly format: string;
  /** The version of the format, as stated in the file. */
  readonly version: string;
  /** The metadata that the model contains. Integers beyond 2^53 are bigints. */
  readonly metadata: Record<string, unknown>;
}

/** One stored part of a tensor. A dense tensor has one component, a sparse tensor has several. */
export interface ComponentInfo {
  /** `"data"` for a dense tensor; `"values"`, `"indices"`, `"indptr"` … for a sparse one. */
  readonly role: string;
  /** The data type. */
  readonly dtype: Dtype;
  /** The number of decoded bytes; `undefined` if the file does not state it. */
  readonly byteLength: number | undefined;
  /** The number of bytes in the file. */
  readonly storedByteLength: number;
  /** The compression of the stored bytes: `"raw"`, `"lz4"` … */
  readonly encoding: string;
}

// Only a type. A comparison with a known name then excludes it, which it would not exclude `string`.
declare enum OtherStrings { Any = "any other string" }

/** A name that this version does not know: any other string. */
export type UnknownName = OtherStrings.Any;

/** The dtypes of quantized blocks, and of floats of at most 8 bits. */
export type PackedDtype =
  | "F8_E4M3" | "F8_E5M2" | "F8_E8M0" | "F8_E4M3FNUZ" | "F8_E5M2FNUZ" | "F4" | "F6_E2M3" | "F6_E3M2"
  | "Q1_0" | "Q2_0" | "Q4_0" | "Q4_1" | "Q5_0" | "Q5_1" | "Q8_0" | "Q8_1"
  | "Q2_K" | "Q3_K" | "Q4_K" | "Q5_K" | "Q6_K" | "Q8_K"
  | "IQ1_S" | "IQ1_M" | "IQ2_XXS" | "IQ2_XS" | "IQ2_S" | "IQ3_XXS" | "IQ3_S" | "IQ4_NL" | "IQ4_XS"
  | "TQ1_0" | "TQ2_0" | "MXFP4" | "NVFP4" | "APR_Q4" | "APR_Q8";

/**
 * A data type, spelled as in SafeTensors and GGUF: `"F32"`, `"BF16"`, `"Q8_0"` … To compare it with a name that is
 * not listed here, widen it first: `const name: string = tensor.dtype`.
 */
export type Dtype =
  | "F64" | "F32" | "F16" | "BF16" | "C64" | "C128"
  | "I64" | "I32" | "I16" | "I8" | "U64" | "U32" | "U16" | "U8" | "BOOL"
  | PackedDtype | UnknownName;

/** How the elements of a tensor are stored. To compare it with another name, widen it to a string first. */
export type Layout = "dense" | "sparse_csr" | "sparse_coo" | "quantized" | "adapted" | UnknownName;

/** How a tensor of the layout `"quantized"` is quantized. Methods have further fields. */
export interface Quantization {
  /** The method: `"mlx"`, `"gptq"`, `"awq"`, `"bitsandbytes"`, `"fp8"`, `"compressed-tensors"` … */
  readonly method: string;
  /** The number of bits of a code. */
  readonly bits?: number;
  /** The number of elements of a row that share a scale. */
  readonly groupSize?: number;
  /** The number of rows and columns that share a scale. */
  readonly blockSize?: readonly [rows: number, columns: number];
  readonly [field: string]: unknown;
}

/** A tensor as described by the index of the model. */
export interface TensorInfo {
  /** The name, unique in the model. */
  readonly name: string;
  /** The data type. */
  readonly dtype: Dtype;
  /** The dimensions in row-major order, outermost first. */
  readonly shape: readonly number[];
  /** How the elements are stored. */
  readonly layout: Layout;
  /** The number of elements: the product of the dimensions. */
  readonly parameterCount: number;
  /** The number of decoded bytes of all components; `undefined` if the file does not state it. */
  readonly byteLength: number | undefined;
  /** The index, from 0, of the file that contains the tensor. */
  readonly shard: number;
  /** The URL of this file; the name of a local one. */
  readonly file: string;
  /** Where the stored bytes of the tensor start in the file. They may have several parts: see `components`. */
  readonly offset: number;
  /**
   * The digest that the model states of a tensor of one component: of its stored bytes, or of its decoded bytes, as the
   * format defines it. `undefined` if there is none.
   */
  readonly digest: `${Exclude<Verified, null>}:${string}` | undefined;
  /** The stored parts of the tensor. */
  readonly components: readonly ComponentInfo[];
  /** Further attributes of the tensor that the format defines. Integers beyond 2^53 are bigints. */
  readonly attributes: Readonly<Record<string, unknown>>;
  /**
   * How a tensor of the layout `"quantized"` is quantized: its codes, scales and more are components, from which `as`
   * computes floats. Its dtype is that of these floats, rounded as the quantizing package does. See
   * "Quantized layouts" in `docs/formats.md`.
   */
  readonly quantization?: Quantization;
}

/** The checksum algorithm that verified the bytes; `null` if the format has no checksum for them. */
export type Verified = "crc32" | "crc32c" | "xxh3" | "sha256" | "blake3" | null;

/** What the option `as` converts floats to. */
export type FloatDtype = "F32" | "F16";

/** Values of one of the dtypes `D`, in a typed array of the class `A`. */
export interface Values<D extends Dtype, A> {
  /** The data type. */
  readonly dtype: D;
  /** The decoded values, in a buffer that belongs to the caller and is exactly as long as they are. */
  readonly data: A;
}

/** A typed array over memory of the type `M`: `Own` over an `ArrayBuffer`, `Any` if the memory may be shared. */
type In<M, Own, Any> = [M] extends [SharedArrayBuffer] ? Any & { readonly buffer: M }
  : [M] extends [ArrayBuffer] ? Own : Any;
type Bytes<M> = In<M, OwnBytes, Uint8Array>;
type Words<M> = In<M, ReturnType<Uint16ArrayConstructor["of"]>, Uint16Array>;
type Singles<M> = In<M, ReturnType<Float32ArrayConstructor["of"]>, Float32Array>;
type Doubles<M> = In<M, ReturnType<Float64ArrayConstructor["of"]>, Float64Array>;

/** `Float16Array`. If the `lib` of TypeScript does not have this class, the properties that all typed arrays have. */
export type HalfArray<M extends ArrayBufferLike = ArrayBuffer> = typeof globalThis extends {
  Float16Array: { of: (...items: number[]) => infer Own; readonly prototype: infer Any };
} ? In<M, Own, Any>
  : ArrayLike<number> & { readonly buffer: M; readonly byteLength: number; readonly byteOffset: number };

/** Values that are not converted. Bytes are also the data of dtypes that this version does not know. */
type Integers<M extends ArrayBufferLike> =
  | Values<"I64", In<M, ReturnType<BigInt64ArrayConstructor["of"]>, BigInt64Array>>
  | Values<"I32", In<M, ReturnType<Int32ArrayConstructor["of"]>, Int32Array>>
  | Values<"I16", In<M, ReturnType<Int16ArrayConstructor["of"]>, Int16Array>>
  | Values<"I8", In<M, ReturnType<Int8ArrayConstructor["of"]>, Int8Array>>
  | Values<"U64", In<M, ReturnType<BigUint64ArrayConstructor["of"]>, BigUint64Array>>
  | Values<"U32", In<M, ReturnType<Uint32ArrayConstructor["of"]>, Uint32Array>>
  | Values<"U16", Words<M>>
  | Values<"U8" | "BOOL" | UnknownName, Bytes<M>>;

/** Values in memory of the type `M` that were loaded with the option `as: A`. */
type LoadedValues<M extends ArrayBufferLike, A extends FloatDtype | undefined> =
  | Integers<M>
  | (A extends "F32" ? Values<"F32", Singles<M>>
    : A extends "F16" ? Values<"F16", HalfArray<M>>
    : | Values<"F64" | "C128", Doubles<M>> | Values<"F32" | "C64", Singles<M>> | Values<"F16" | "BF16", Words<M>>
      | Values<PackedDtype, Bytes<M>>);

/**
 * The loaded data of one component. Its dtype determines the class of its data: 16-bit floats are a `Uint16Array`, or a
 * `Float16Array` with `as: "F16"`; quantized blocks and unknown dtypes are a `Uint8Array`.
 */
export type TensorComponent<
  M extends ArrayBufferLike = ArrayBuffer,
  A extends FloatDtype | undefined = FloatDtype | undefined,
> = LoadedValues<M, A>;

/** A typed array that matches the dtype of a tensor. */
export type TensorData<M extends ArrayBufferLike = ArrayBuffer> = TensorComponent<M>["data"];

/** The class of the data of one of the dtypes `D`, in memory of the type `M`, loaded with the option `as: A`. */
export type DataOf<
  D extends Dtype, M extends ArrayBufferLike = ArrayBuffer, A extends FloatDtype | undefined = undefined,
> = LoadedValues<M, A> extends infer V
  ? V extends Values<infer Names, infer Data> ? (D extends Names ? Data : never) : never
  : never;

/** What a dense tensor of the dtype `D` has. */
type DenseOf<D extends Dtype, M extends ArrayBufferLike, A extends FloatDtype | undefined> =
  { readonly layout: "dense"; readonly dtype: D; readonly data: DataOf<D, M, A> };

/** What every tensor has, whatever its layout. */
export interface TensorParts<
  M extends ArrayBufferLike = ArrayBuffer,
  A extends FloatDtype | undefined = FloatDtype | undefined,
> {
  /** The name, unique in the model. */
  readonly name: string;
  /** The dimensions in row-major order, outermost first. With `rows`, those of the loaded part. */
  readonly shape: readonly number[];
  /** The loaded components by role. A dense tensor has the single component `"data"`. */
  readonly components: ReadonlyMap<string, TensorComponent<M>>;
  /** The checksum algorithm that verified the tensor. */
  readonly verified: Verified;
  /**
   * Whether the tensor is dense and has this dtype. TypeScript then knows the class of its data:
   *
   * ```ts
   * if (tensor.is("F32")) tensor.data.fill(0); // a Float32Array
   * ```
   *
   * Copies by `structuredClone` and `postMessage` do not have this method.
   */
  is<D extends Exclude<Dtype, UnknownName>>(
    dtype: D,
  ): this is DenseOf<D, M, A>;
}

/** A dense tensor: `data` has all its elements, in row-major order. */
export type DenseTensor<
  M extends ArrayBufferLike = ArrayBuffer,
  A extends FloatDtype | undefined = FloatDtype | undefined,
> = TensorParts<M, A> & {
  /** How the elements are stored. */
  readonly layout: "dense";
} & TensorComponent<M, A>;

/** A tensor that was loaded as floats of the dtype `A`. */
export type FloatTensor<A extends FloatDtype = "F32", M extends ArrayBufferLike = ArrayBuffer> =
  TensorParts<M, A> & {
    /** How the elements are stored. */
    readonly layout: "dense";
  } & (A extends "F32" ? Values<"F32", Singles<M>> : A extends "F16" ? Values<"F16", HalfArray<M>> : never);

/** A tensor that is not dense, such as a sparse or a quantized one. Its data are in `components`. */
export interface NonDenseTensor<
  M extends ArrayBufferLike = ArrayBuffer,
  A extends FloatDtype | undefined = FloatDtype | undefined,
> extends TensorParts<M, A> {
  /** The data type of the values. */
  readonly dtype: Dtype;
  /** How the elements are stored. */
  readonly layout: Exclude<Layout, "dense">;
  /** Only dense tensors have it. */
  readonly data: undefined;
}

/**
 * A loaded tensor. Its data are in memory of the type `M`: an `ArrayBuffer`, unless it was loaded `into` shared memory.
 *
 * The type of `data` follows from `dtype` and `layout`:
 *
 * ```ts
 * const tensor = await loader.loadTensor(name);
 * if (tensor.layout === "dense" && tensor.dtype === "F32") tensor.data; // Float32Array<ArrayBuffer>
 * ```
 *
 * `A` is the option `as` that it was loaded with.
 */
export type Tensor<
  M extends ArrayBufferLike = ArrayBuffer,
  A extends FloatDtype | undefined = FloatDtype | undefined,
> = DenseTensor<M, A> | NonDenseTensor<M, A>;

/** The type of one of the options `O`; `undefined` if it is not among them. */
type Option<O, Name extends PropertyKey> = Name extends keyof O ? O[Name] : undefined;

/** The memory that a tensor is in, for the option `into`. */
type MemoryOf<I> = I extends { readonly buffer: infer M extends ArrayBufferLike } ? M
  : I extends ArrayBufferLike ? I : ArrayBuffer;

/** The arrays that are only accepted as `into` if `data` has their class, too. */
type ExactArray =
  `${"Float32" | "Float64" | "Int8" | "Int16" | "Uint16" | "Int32" | "Uint32" | "BigInt64" | "BigUint64"}Array`;

/** The tensors among `T` that can be loaded `into` memory of the type `I`. */
type Fitting<T extends { readonly data: unknown }, I> = I extends { readonly [Symbol.toStringTag]: infer C }
  ? [C] extends [ExactArray] ? Extract<T, { readonly data: { readonly [Symbol.toStringTag]: C } | undefined }> : T
  : T;

/** The tensor that {@link StreamingLoader.loadTensor} loads with the options `O`. */
export type LoadedTensor<O> = [Option<O, "as">] extends [FloatDtype]
  ? Fitting<FloatTensor<Extract<Option<O, "as">, FloatDtype>, MemoryOf<Into<O>>>, Into<O>>
  : StreamedTensor<O>;

/** The tensors that {@link StreamingLoader.tensors} loads with the options `O`. */
export type StreamedTensor<O> = Fitting<
  [Option<O, "layout">] extends ["dense"]
    ? DenseTensor<MemoryOf<Into<O>>, Extract<Option<O, "as">, FloatDtype | undefined>>
    : Tensor<MemoryOf<Into<O>>, Extract<Option<O, "as">, FloatDtype | undefined>>,
  Into<O>
>;

/** The option `into`; the default is a new buffer. Without `strictNullChecks`, `undefined` extends every type. */
type Into<O> = "into" extends keyof O ? O["into"] : ArrayBuffer;

/** The options `O`, if each of them is known. */
type Known<O, All> = O & { readonly [Name in Exclude<keyof O, keyof All>]: never };

/** Options of {@link StreamingLoader.loadTensor}. */
export interface LoadTensorOptions {
  /** Aborts the call, which then rejects with the `reason` of the signal. Default: none. */
  signal?: AbortSignal | null | undefined;
  /**
   * The memory to write the bytes to. It must be exactly as long as the loaded bytes. A typed array must be of the
   * class that `data` would have, a `Float16Array` for F16, or a `Uint8Array`. If the memory is detached or shrunk
   * before the call has settled, the call rejects with `INVALID_ARGUMENT`. Default: a new buffer.
   */
  into?: ArrayBufferLike | ArrayBufferView | undefined;
  /**
   * Load only the rows `[first, end)` of the outermost dimension. Of an uncompressed tensor only these rows are
   * requested. Of a compressed one, their blocks are, as far as their positions are known: those that weightstream
   * wrote (64 KiB of LZ4, 1 MiB of Zstandard), and those that were decoded before. Otherwise everything before the
   * rows, or the whole tensor, is requested. See "What rows cost" in `docs/formats.md`. Default: all rows.
   */
  rows?: readonly [first: number, end: number] | undefined;
  /**
   * Converts floats and quantized elements while they arrive: `data` is then a `Float32Array`, or, with `"F16"`, a
   * `Float16Array`, which the engine must have. Tensors that cannot be converted, such as those of integers, reject
   * with `UNSUPPORTED`; `tensors()` returns integers and booleans unchanged. Default: the stored dtype.
   */
  as?: FloatDtype | undefined;
  /**
   * `"dense"` makes a sparse tensor (`sparse_csr`, `sparse_coo`) a dense one: `data` has all its elements, in row-major
   * order. A tensor that would be larger than `maxMemory` rejects with `LIMIT`, unless `into` is given. Dense tensors
   * are not changed. It also computes the values of a quantized tensor of several components. Default: the stored
   * layout.
   */
  layout?: "dense" | undefined;
  /**
   * Called with the decoded bytes of the tensor in order, in chunks of 1 MiB, while they arrive over one connection. If
   * it returns a promise, the next chunk waits for it; if it throws or rejects, so does the load. The digest of the
   * tensor is compared before its last chunk is passed, so the chunks before that are not verified yet; nor are `rows`.
   * Only for dense tensors of one component, and not together with `as`, `into`, `layout` or `device`. Default: none.
   */
  onChunk?: ((chunk: TensorChunk) => void | PromiseLike<void>) | undefined;
}

/** Bytes of a tensor that have arrived: see {@link LoadTensorOptions.onChunk}. */
export interface TensorChunk {
  /** The position of the first byte in the tensor, or in its loaded rows. */
  readonly offset: number;
  /** The bytes, in the memory that `data` of the loaded tensor will have: do not change or transfer them. */
  readonly bytes: OwnBytes;
}

/** What weightstream needs of a `GPUDevice`, whose buffers are of type `B`. */
export interface GpuDevice<B> {
  /** Creates a buffer, as in WebGPU. */
  createBuffer(descriptor: { size: number; usage: number; label?: string }): B;
  /** The queue, with `writeBuffer` and `submit`. */
  readonly queue: object;
}

/** Where a tensor goes on a GPU. */
export interface GpuOptions<B> {
  /** The device that gets the tensor. */
  device: GpuDevice<B>;
  /**
   * The usage flags of the buffer (`GPUBufferUsage`). `COPY_DST` is added, and `STORAGE` if `as` converts the tensor.
   * Default: `STORAGE | COPY_DST | COPY_SRC`.
   */
  usage?: number | undefined;
  /**
   * Converts floats on the GPU: from F32, F16, BF16, Q8_0, Q4_0 or Q4_K. Tensors of integers and booleans keep their
   * dtype. Default: the stored dtype.
   */
  as?: FloatDtype | undefined;
}

/** A tensor in a buffer of a GPU. */
export interface GpuTensor<B> {
  /** The name, unique in the model. */
  readonly name: string;
  /** The data type of the buffer. */
  readonly dtype: Dtype;
  /** The dimensions in row-major order, outermost first. With `rows`, those of the loaded part. */
  readonly shape: readonly number[];
  /** The number of bytes of the tensor. The buffer is padded with zeros to a multiple of 4 bytes. */
  readonly byteLength: number;
  /** The buffer. It belongs to the caller, who destroys it. */
  readonly gpuBuffer: B;
  /** The checksum algorithm that verified the stored bytes of the tensor. */
  readonly verified: Verified;
}

/** Options of {@link StreamingLoader.tensors}. */
export interface TensorsOptions {
  /** The names of the tensors to load. Default: all tensors of the model. */
  names?: Iterable<string> | undefined;
  /**
   * The order of the tensors. `"file"`: by their positions in the files, with few requests, over several connections if
   * these are faster; tensors of different connections arrive in any order. `"given"`: exactly the order of `names`,
   * over one connection; tensors that follow each other both in `names` and in the file share a request. A server that
   * ignores Range requests sends the file again for each step backwards. Default: `"file"`.
   */
  order?: "file" | "given" | undefined;
  /** Aborts the iteration, which then rejects with the `reason` of the signal. Default: none. */
  signal?: AbortSignal | null | undefined;
  /**
   * Converts floats and quantized elements while they arrive: see {@link LoadTensorOptions.as}. Tensors of integers and
   * booleans keep their dtype.
   */
  as?: FloatDtype | undefined;
  /** Makes sparse tensors dense: see {@link LoadTensorOptions.layout}. */
  layout?: "dense" | undefined;
}

/** Counters over the lifetime of a loader. */
export interface LoaderStats {
  /** The number of requests. */
  readonly requests: number;
  /** The number of body bytes that were received from the source, including headers and indexes of the files. */
  readonly bytesReceived: number;
  /** The number of bytes that were read from the cache, or from Cross-Origin Storage. */
  readonly bytesFromCache: number;
  /**
   * Why bytes are not cached, or not in the preferred place: the quota, a server that sends neither ETag nor
   * Last-Modified, a private window, a worker that cannot start. `undefined` if there is no error yet, with
   * `cache: "none"`, and for a model that is not loaded from a URL. On the first visit, the cache may start after the
   * first tensors were loaded. With a folder, it also says why a complete file could not be written.
   */
  readonly cacheError: string | undefined;
  /**
   * Whether the browser keeps the cache when its storage runs low (`navigator.storage.persisted()`), when the model was
   * opened. `undefined` if the browser does not say so, with `cache: "none"` or your own storage, and for a model that
   * is not loaded from a URL.
   */
  readonly cachePersisted: boolean | undefined;
  /** What the option `crossOriginStorage` did. `undefined` without this option. */
  readonly crossOriginStorage: CrossOriginStorageStats | undefined;
  /**
   * Why workers that were requested (`workers`, `inWorker`) and needed do not run, so that the thread that called
   * `open` does the work. `undefined` if there is no error, or if there was no work for them.
   */
  readonly workersError: string | undefined;
  /** The number of bytes of tensors that were delivered. */
  readonly bytesDecoded: number;
  /** The current size of the WebAssembly memory. It never shrinks, so this is also its peak. */
  readonly wasmMemoryBytes: number;
  /** The opened URL and its `mirrors`, in their order. `undefined` without this option. */
  readonly mirrors: readonly MirrorStats[] | undefined;
}

/** An address of a model or a file: the opened URL, or one of its `mirrors`. */
export interface MirrorStats {
  /** The URL. */
  readonly url: string;
  /** The number of bytes that it has sent, of all files, including those that were not used. */
  readonly byteLength: number;
  /** Why the address, or a file at it, is not used. `undefined` if it works, or was not needed. */
  readonly failure: string | undefined;
}

/** What the option `crossOriginStorage` did for a model or a file. */
export interface CrossOriginStorageStats {
  /** The number of files that are read from Cross-Origin Storage. */
  readonly filesFound: number;
  /** The number of files that were stored there. Files are stored in the background, also after `close()`. */
  readonly filesStored: number;
  /** The number of files that were not looked up, because their SHA-256 was not known before they were read. */
  readonly filesWithoutDigest: number;
  /**
   * The first reason why a file was not looked up, not used or not stored: the browser has no Cross-Origin Storage, the
   * site may not use it, the file has another digest, the quota. A file that is not there is no error.
   */
  readonly error: string | undefined;
}

/**
 * What `using` calls: `[Symbol.dispose]()`, which calls `close()`. Without members if the `lib` of TypeScript does not
 * have `Symbol.dispose`.
 */
export type Disposing = SymbolConstructor extends { readonly dispose: infer Name extends symbol }
  ? { [Method in Name]: () => void } : {};

/** An open model. Call `close()` when it is no longer needed. */
export class StreamingLoader {
  private constructor();
  /**
   * Opens a model and reads its header, with one or two requests whatever the size of the model.
   *
   * Rejects if the source cannot be read, is not in a supported format, or an option is invalid.
   */
  static open(source: Source, options?: OpenOptions): Promise<StreamingLoader>;
  /** Loads the format and the metadata of the model. */
  loadMetadata(options?: CallOptions): Promise<Metadata>;
  /** Loads the list of all tensors, in file order. Reads the headers of all files of the model. */
  loadIndex(options?: CallOptions): Promise<readonly TensorInfo[]>;
  /**
   * Loads the warnings about the model, each with the name of its file: a newer minor version of the format, a missing
   * checksum, a signature that was not verified, unknown flags. The model can be loaded all the same. Reads the headers
   * of all files of the model. Padding that is not zero is among them once `verify()` has read the whole model.
   */
  warnings(options?: CallOptions): Promise<readonly string[]>;
  /**
   * Loads one tensor, reading only its bytes.
   *
   * Rejects with `NOT_FOUND` if the model has no tensor of this name, and with `CHECKSUM` if its bytes are damaged.
   */
  loadTensor(name: string | TensorInfo): Promise<Tensor<ArrayBuffer, undefined>>; // in JavaScript, `O` would be `any`
  loadTensor<O extends LoadTensorOptions = {}>(
    name: string | TensorInfo, options?: Known<O, LoadTensorOptions> & Pick<LoadTensorOptions, "onChunk">,
  ): Promise<LoadedTensor<O>>;
  /**
   * Loads one tensor into a new buffer of a GPU, in pieces of at most 2 MiB, without holding the tensor in other
   * memory. The buffer is returned once the tensor is verified.
   *
   * Rejects with `LIMIT` if the tensor is larger than a limit of the device, which the message names, and with
   * `UNSUPPORTED` if it has several components, or if its dtype cannot be converted.
   */
  loadTensor<B>(
    name: string | TensorInfo, options: Omit<LoadTensorOptions, "into" | "layout" | "onChunk"> & GpuOptions<B>,
  ): Promise<GpuTensor<B>>;
  /**
   * Starts loading tensors in the background for later calls of `loadTensor`, with a lower priority than these, in the
   * given order: that in which the model computes, for example. If a tensor cannot be loaded, the later `loadTensor`
   * rejects. If `signal` aborts, tensors that have not arrived are not loaded until `loadTensor` asks for them,
   * also if another call of `prefetch` named them later.
   */
  prefetch(names: Iterable<string>, options?: CallOptions): void;
  /**
   * Loads many tensors with few long requests and yields each tensor as soon as it is complete. Tensors that arrive
   * over the same connection are in file order. A load of the whole model also verifies the checksums of the files, and
   * throws at the end if one does not match. If all tensors have strong digests of their own, digests of parts of the
   * file are left to `verify()`.
   *
   * Reading starts when the first tensor is requested. An abort, `close()`, and `return()` of the iterator (which
   * `break` calls) stop the requests immediately, even if no tensor is being awaited.
   */
  tensors(): AsyncIterableIterator<Tensor<ArrayBuffer, undefined>>;
  tensors<O extends TensorsOptions = {}>(
    options?: Known<O, TensorsOptions>,
  ): AsyncIterableIterator<StreamedTensor<O>>;
  /**
   * Loads many tensors into buffers of a GPU, one after another, over one connection. Each is verified by
   * its own checksum; checksums of whole files are not compared.
   */
  tensors<B>(options: Omit<TensorsOptions, "layout"> & GpuOptions<B>): AsyncIterableIterator<GpuTensor<B>>;
  /**
   * Reads and verifies the whole model without storing it. Resolves to the checksum algorithm that verified all of it,
   * by checksums of the files or by those of all tensors; to `null` if a tensor has no checksum, or if there are
   * several algorithms. Rejects with `CHECKSUM` if the model is damaged.
   */
  verify(options?: CallOptions): Promise<Verified>;
  /**
   * Returns the model as one SafeTensors file, whatever its format, compression and sharding. The Blob requests and
   * decodes bytes when they are read: see {@link RemoteFile.blob} for what such a Blob cannot do.
   *
   * The header is compact JSON with the tensors in the order of `loadIndex()`, without `__metadata__`, padded with
   * spaces to a multiple of 8 bytes. Dtypes that SafeTensors does not have are `U8`. `weightstream convert` with
   * `--no-metadata` writes the same file, so other files, such as an ONNX graph, may refer to offsets in it.
   *
   * A tensor that is read completely is verified before its last bytes are returned, one that is read in part as well
   * if it fits into a quarter of `maxMemory`: it is then decoded as a whole, and kept for further reads. Reads of the
   * Blob call no `onProgress`; `stats` counts them.
   *
   * If the model consists of several files whose index was not loaded yet, or the loader is in a worker, the `size` of
   * the Blob is known once the Blob was awaited; its methods wait for that themselves. Throws or rejects with
   * `UNSUPPORTED` if a tensor cannot be stored in a SafeTensors file, such as a sparse one.
   */
  toBlob(): Blob & PromiseLike<Blob>;
  /** Counters over the lifetime of the loader. */
  readonly stats: LoaderStats;
  /**
   * Stops all requests and frees the memory immediately. Pending and later calls reject with `CLOSED`. Further calls of
   * `close()` have no effect, and `stats` remains readable.
   */
  close(): void;
}

export interface StreamingLoader extends Disposing {}

/** Options of {@link openFile}. Options that {@link OpenOptions} has too have the same meaning. */
export interface OpenFileOptions extends
  Pick<
    OpenOptions,
    | "signal" | "fetch" | "headers" | "credentials" | "onProgress" | "cache" | "cacheKey" | "crossOriginStorage"
    | "retry" | "hub" | "mirrors"
  > {
  /**
   * The digest that the file must have. It is checked by every call that reads the whole file, before the last bytes
   * are delivered: a file with another digest rejects with `CHECKSUM`. Default: none.
   */
  digest?: Digest | undefined;
  /**
   * The signature of the model that the file belongs to. The file must be what was signed: it is read as a whole and
   * compared before anything of it is returned. A file that is not signed, or is another one, is `SIGNATURE`.
   * Default: none.
   */
  signature?: SignatureOptions | undefined;
  /**
   * The maximum number of bytes that `blob()` keeps in memory for reads that overlap. Default: 32 MiB.
   */
  maxMemory?: number | undefined;
  /** The media type. Default: the `Content-Type` of the server, else one for the extension. */
  type?: string | undefined;
}

/** Options of calls that load several files, which may be at several origins. */
export interface OpenFilesOptions extends OpenFileOptions {
  /**
   * The origins that get `headers` and `credentials`, such as `["https://example.org"]`. Requests to all other origins
   * are sent without them. The documentation of the call says which origin is the default.
   */
  origins?: readonly (string | URL)[] | undefined;
}

/** Options of {@link RemoteFile.stream}. */
export interface ReadOptions {
  /** The first byte. Default: 0. */
  start?: number | undefined;
  /** The end of the range, exclusive. Default: the end of the file. */
  end?: number | undefined;
  /** Aborts the read, which then rejects with the `reason` of the signal. Default: none. */
  signal?: AbortSignal | null | undefined;
}

/** Counters over the lifetime of a file. See {@link LoaderStats}. */
export type FileStats = Pick<
  LoaderStats,
  | "requests" | "bytesReceived" | "bytesFromCache" | "cacheError" | "cachePersisted" | "crossOriginStorage"
  | "mirrors"
>;

/**
 * A file of any format: a graph, a tokenizer, an archive. It is read with the retries, resumption, verification and
 * cache of a model's files. Call `close()` when it is no longer needed.
 */
export class RemoteFile {
  private constructor();
  /** The URL; empty for a file that is not at a URL. */
  readonly url: string;
  /** The length in bytes; `undefined` if the server does not state it, and after `close()`. */
  readonly byteLength: number | undefined;
  /** The media type. */
  readonly type: string;
  /** Reads the bytes `[start, end)` into a new buffer. Default: the whole file. */
  bytes(start?: number, end?: number, options?: CallOptions): Promise<OwnBytes>;
  /** Streams a range of the file. The stream is a byte stream: BYOB readers can read it into their own buffers. */
  stream(options?: ReadOptions): ReadableStream<OwnBytes>;
  /** Reads the whole file. */
  arrayBuffer(options?: CallOptions): Promise<ArrayBuffer>;
  /** Reads the whole file as UTF-8. */
  text(options?: CallOptions): Promise<string>;
  /** Reads the whole file as JSON. Rejects with `FORMAT` if it is not valid JSON. */
  json(options?: CallOptions): Promise<any>;
  /**
   * Returns a Blob that is read when it is needed: its `slice`, `stream`, `arrayBuffer`, `bytes` and `text` request
   * only their range, and keep the bytes that were read last (`maxMemory`), so that reads that overlap request nothing
   * twice. It is an `instanceof Blob`, but there is no Blob underneath: `structuredClone`, `postMessage`,
   * `URL.createObjectURL`, `FileReader`, `new Blob([blob])` and `new Response(blob)` throw. Use `file()` for these.
   *
   * Throws `UNSUPPORTED` if the server does not state the length of the file.
   */
  blob(): Blob;
  /**
   * Returns a `Response` with the whole file. It is a real `Response`, except that its methods reject with the
   * `LoadError` itself instead of a `TypeError`, and that `url` is the URL of the file.
   */
  response(): Response;
  /**
   * Downloads the whole file to the origin private file system and returns it as a `File` on disk, which can be cloned,
   * posted to workers, and given an object URL. A later call for the same URL replaces the file once its own download
   * has ended. `listCached` lists the file under the name that the URL has in the cache, and `deleteCached` and
   * `clearCache` delete it.
   *
   * Calls at the same time share one download, which stops when the signals of all of them have aborted. Rejects with
   * `UNSUPPORTED` if the browser cannot write such files.
   */
  file(options?: CallOptions): Promise<File>;
  /** Counters over the lifetime of the file. */
  readonly stats: FileStats;
  /** Stops all requests and frees the memory. Pending and later calls reject with `CLOSED`. */
  close(): void;
}

export interface RemoteFile extends Disposing {}

/**
 * Opens a file of any format at a URL, or a local file. Requests its first 64 KiB.
 *
 * Rejects if the file cannot be read, or an option is invalid.
 */
export function openFile(source: FileSource, options?: OpenFileOptions): Promise<RemoteFile>;

/** Whether a model fits: see {@link willFit}. What the platform does not say is `undefined`. */
export interface Fit {
  /** The number of bytes of all tensors, as stored: the `total` of a load of the whole model. */
  readonly byteLength: number;
  /** The storage of the cache. A model that does not fit can be loaded all the same, but not all of it is cached. */
  readonly storage: {
    /** The bytes of the model that are not cached yet; 0 if they will not be cached, as in a private window. */
    readonly needed: number;
    /** The bytes that can be stored: in browsers what `navigator.storage.estimate()` leaves of the quota. */
    readonly available: number | undefined;
    /** Whether `needed` is at most `available`. */
    readonly fits: boolean | undefined;
  };
  /** The memory for all tensors at the same time. */
  readonly memory: {
    /** The decoded bytes of all tensors; `undefined` if the files do not state all of them. */
    readonly needed: number | undefined;
    /** The decoded bytes of the largest tensor. */
    readonly largest: number | undefined;
    /**
     * In browsers the memory of the device (`navigator.deviceMemory`, which only Chromium has, rounded and limited), of
     * which a page gets a part. In Node.js, Deno and Bun the memory that is available.
     */
    readonly limit: number | undefined;
    /**
     * `false` if no `ArrayBuffer` of the length of the largest tensor can be allocated, which has less than 4 GiB, or
     * if the tensors need more than `limit`. `undefined` if that is not known.
     */
    readonly fits: boolean | undefined;
  };
  /** Whether the browser keeps the cache when its storage runs low: `navigator.storage.persisted()`. */
  readonly persisted: boolean | undefined;
}

/**
 * Reports before a load whether there is enough storage and memory for a model. Reads only the headers of its files.
 * Takes the arguments of `open`; `inWorker` and `onProgress` have no effect. To find out what can be allocated, it
 * allocates a buffer of the length of the largest tensor for a moment.
 *
 * Cached bytes are subtracted from the storage that is needed, except for requests with `headers` or
 * `credentials: "include"`, and for files without a request, such as those that are found by their digest.
 */
export function willFit(source: Exclude<Source, Response>, options?: OpenOptions): Promise<Fit>;

/**
 * A cached file, complete or in part. A file that was loaded with different credentials is listed once for each, and
 * once more for a copy that `RemoteFile.file()` has written.
 */
export interface CachedFile {
  /** The URL without its fragment and its signature, or the name that `cacheKey` returned. */
  readonly url: string;
  /** The `url` of its model in {@link cachedModels}. A file of several models has that of the first. */
  readonly model: string;
  /** The number of bytes on the disk. */
  readonly cachedBytes: number;
  /** The length of the whole file; `undefined` if the server did not report it. */
  readonly byteLength: number | undefined;
  /** When the file was last read or written. */
  readonly lastUsed: Date;
}

/**
 * Lists the cached files of this origin, those of a model one after the other. The list is empty if the browser has no
 * storage for them. If the code that finds out which files belong together cannot be loaded, each is a model of its
 * own. Rejects with `IO` if the storage fails.
 */
export function listCached(): Promise<readonly CachedFile[]>;

/** A cached model: all cached files that belong to it. */
export interface CachedModel {
  /**
   * The `url` of the file that is opened: the manifest of a model in several files, the first part of a split GGUF
   * model, which need not be cached, or the only file.
   */
  readonly url: string;
  /** The cached files, that of `url` first. A file that several models name is listed in each of them. */
  readonly files: readonly CachedFile[];
  /** The number of bytes of these files on the disk. */
  readonly cachedBytes: number;
  /** The length of the whole model; `undefined` while one of its files is missing or has no known length. */
  readonly byteLength: number | undefined;
  /** When one of the files was last read or written. */
  readonly lastUsed: Date;
}

/**
 * Lists the cached files of this origin by model. A file that belongs to no other, such as a tokenizer, is a model of
 * one file. Reads the cached manifests, ONNX graphs and names of split GGUF files, and requests nothing from servers.
 * Files whose names come from `cacheKey`, and those that `partUrl` has moved, are listed as models of their own.
 * A file that a cached manifest names belongs to its model, also if it was opened by itself. Rejects with `IO` if the
 * storage fails, and with `NETWORK` if the code for this, a file of the package, cannot be loaded.
 */
export function cachedModels(): Promise<readonly CachedModel[]>;
/** Resolves to the number of bytes that all cached files occupy on the disk. Rejects with `IO` if the storage fails. */
export function cachedBytes(): Promise<number>;
/**
 * Deletes a cached model with all of its files, for all credentials that they were loaded with, except files that other
 * cached models name as well. `model` is one of `cachedModels`, or its URL. A file of `listCached`, or the URL of any
 * other file, deletes that file. Rejects with `IO` if the storage fails. Rejects with `NETWORK` if the code that finds
 * the files of a model cannot be loaded; then only the files that were passed are deleted.
 */
export function deleteCached(model: CachedModel | CachedFile | string | URL): Promise<void>;
/** Deletes all cached files of this origin. Rejects with `IO` if the storage fails. */
export function clearCache(): Promise<void>;

/** The stable codes of {@link LoadError}. Generated from `ErrorKind` in `src/error.rs`. */
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
  /** The signature of the model is invalid, or does not cover the bytes. */
  | "SIGNATURE"
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
 * The error of all failures. The message states what failed, where, and what you can do about it.
 *
 * If the WebAssembly module crashes, all pending calls of all loaders reject: with `LIMIT` if it ran out of memory,
 * else with `INTERNAL`. The exception is the `cause`. The next call of `open` starts a new instance of the module.
 */
export class LoadError extends Error {
  private constructor();
  /** The name of the class, which is the same in all frames and workers. */
  readonly name: "LoadError";
  /** The kind of the failure. */
  readonly code: LoadErrorCode;
  /** The URL or the path of the file in which the failure occurred. */
  readonly url: string | undefined;
  /** The name of the tensor that could not be loaded. */
  readonly tensor: string | undefined;
  /** The bytes `[start, end)` of the file that the failure concerns. */
  readonly range: readonly [start: number, end: number] | undefined;
  /** The HTTP status of the response. */
  readonly status: number | undefined;
  /** The exception that caused the failure. */
  readonly cause?: unknown;
}

/** The URL of the WebAssembly module, a response with it, its bytes, or the compiled module. */
export type ModuleSource = string | URL | Request | Response | BinaryData | CompiledModule;

/** `WebAssembly.Module`, where the `lib` of TypeScript has it. */
export type CompiledModule = ModuleInstance;

/** Where the parts of the package are that a bundler may not find. */
export interface InitOptions {
  /** The whole module, `weightstream_bg.wasm`. Default: its parts beside the script, the second when it is needed. */
  module?: ModuleSource | Promise<ModuleSource> | undefined;
  /**
   * Starts a worker that runs `weightstream/weightstream.worker.js`, for bundlers with a syntax of their own for
   * workers. It is called for each worker.
   */
  worker?: (() => WorkerInstance) | undefined;
  /**
   * The URL of `weightstream/weightstream.worker.js`, which is one self-contained file. Default:
   * `weightstream.worker.js` beside the script. In Node.js, Deno and Bun, that of `weightstream.node_worker.js`.
   */
  workerUrl?: string | URL | undefined;
}

/**
 * Compiles and starts the WebAssembly module. `StreamingLoader.open` does this automatically. Call `init` first if the
 * `.wasm` file or the script of the workers is not beside the script, or if the module is already loaded: after that,
 * `open` uses no URL of its own. Calls after the first do not start the module again.
 *
 * In browsers it also fetches what a page may need later: the rest of the module and the scripts of the workers, so
 * that a service worker of the app can keep them for a page that is offline. It does not reject if it cannot fetch
 * them.
 *
 * Rejects with `UNSUPPORTED` if the browser has no WebAssembly SIMD, with `NETWORK` if the module cannot be loaded
 * because the browser is offline, with `INTERNAL` if it cannot be loaded for another reason, and with
 * `INVALID_ARGUMENT` for unknown options.
 */
export function init(given?: ModuleSource | InitOptions): Promise<void>;

// Only what is marked with `export` is public.
export {};
