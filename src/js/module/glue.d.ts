/**
 * The exports of `glue.js`, which wasm-bindgen generates for the WebAssembly module, with the types that it cannot
 * know. Only the type check reads this file; it is not part of the package. The build compares it with the names and
 * parameters that wasm-bindgen generates (`tests/package/glue/glue.ts`).
 */
import type {
  CachedFile, Dtype, FileStats, LoadErrorCode, LoadProgress, LoaderStats, Metadata, Tensor, Verified, WeightCache,
} from "../weightstream.js";
import type { CrossOriginAccess } from "../cache/cross_origin_calls.js";
import type { WorkerRole } from "../worker/messages.js";

/** Compiles and starts the module. */
export default function start(options: { module_or_path: unknown }): Promise<unknown>;
/** Starts a module that is compiled already. */
export function initSync(options: { module: WebAssembly.Module }): unknown;
/** Replaces the instance of the module by a new one. */
export function __wbg_reset_state(): void;
/** The compiled module that runs in this thread. */
export function thisModule(): WebAssembly.Module;
/** Sets the storage that the platform provides in place of that of a browser. */
export function setCache(cache: WeightCache): void;
/** What the package uses of a `Worker`. */
export interface PackageWorker {
  postMessage(message: unknown, transferred?: Transferable[]): void;
  terminate(): void;
  onmessage: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  onmessageerror: ((event: any) => void) | null;
}

/** Sets what loads the deferred part of a number. The promise settles when the code of the part can be called. */
export function setDeferred(load: (part: number) => Promise<void>): void;
/** Sets what knows whether a request has violated the page's Content-Security-Policy. */
export function setPolicy(isForbidden: (url: string) => Promise<boolean>): void;
/** Sets how the module starts workers, which get the module and their role, and how it ends them. */
export function setWorkers(
  start: (role: Exclude<WorkerRole, "loader">) => PackageWorker,
  end: (worker: PackageWorker) => void,
): void;
/** Sets what is called with the message of a panic, before the module traps. */
export function onCrash(listener: (message: string) => void): void;

/** Runs this worker as the one that reads and writes the cache. */
export function serveCache(): void;
/** Runs this worker as one that decodes and computes digests. */
export function serveJobs(): void;

/** A cached file before it is known to which model it belongs. */
export type ListedFile = Omit<CachedFile, "model">;
export function cacheList(): Promise<ListedFile[]>;

export function cacheSettled(): Promise<void>;
/** A cached file that leads to others of its model, the parts of that model, and files that only updates of it need. */
export type ModelFiles = [name: string, parts: string[], others: string[]];
export function cacheModels(): Promise<ModelFiles[]>;
/** The names under which the file at a URL may be cached. `name` is what the caller passed. */
export function cacheFolderPath(name: string): Promise<string>;
export function cacheNames(url: string, name: string): Promise<string[]>;
export function cacheDelete(names: string[]): Promise<void>;
export function cacheClear(): Promise<void>;
/** The lengths of the files of which all bytes are cached. */
export function cacheFind(
  urls: string[], options: CheckedFileOptions, forgets: boolean,
): Promise<(number | undefined)[]>;

/** The fields of a `LoadError`. Only `code` and `message` are required. */
export interface ErrorFields {
  code: LoadErrorCode;
  message: string;
  url?: string | undefined;
  tensor?: string | undefined;
  range?: [start: number, end: number] | undefined;
  status?: number | undefined;
  cause?: unknown;
}

/** An error of the module, as it rejects promises. */
export class Failure implements ErrorFields {
  private constructor();
  readonly code: LoadErrorCode;
  readonly message: string;
  readonly url: string | undefined;
  readonly tensor: string | undefined;
  readonly range: [start: number, end: number] | undefined;
  readonly status: number | undefined;
  readonly cause: unknown;
  /** Frees its memory in the module. */
  free(): void;
}

/** An adapter, whose source is as the caller passes it until it is checked. */
export interface CheckedAdapter {
  source: CheckedSource;
  scale?: number | undefined;
  /** JSON. */
  config?: string | undefined;
}

/** Options of `open` that `options/options.js` has checked and converted to plain data of this realm. */
export interface CheckedOpenOptions {
  signal?: AbortSignal | undefined;
  fetch?: typeof globalThis.fetch | undefined;
  headers?: [name: string, value: string][] | undefined;
  credentials?: RequestCredentials | undefined;
  onProgress?: ((event: LoadProgress) => void) | undefined;
  verify?: boolean | undefined;
  concurrency?: number | undefined;
  coalesceGap?: number | undefined;
  cache?: "auto" | "opfs" | "none" | WeightCache | undefined;
  /** Set if nothing is cached, so that the cache need not be asked. Releases the lock of the download. */
  releaseLock?: (() => void) | undefined;
  cacheKey?: ((url: string) => string) | undefined;
  /** The mode, and for the module the functions of `cache/cross_origin_storage.js`. */
  crossOriginStorage?: boolean | "read" | CrossOriginAccess | undefined;
  partUrl?: ((path: string, url: string) => string | undefined) | false | undefined;
  /** JSON. */
  config?: string | undefined;
  adapters?: CheckedAdapter[] | undefined;
  maxMemory?: number | undefined;
  workers?: number | undefined;
  digests?: { tensors?: [name: string, digest: string][]; files?: [path: string, digest: string][] } | undefined;
  retry?: { attempts?: number; baseDelay?: number; maxDelay?: number; stallTimeout?: number } | undefined;
  hub?: { endpoint?: string; token?: string } | undefined;
  /** As the caller passes it, until it is verified. */
  signature?: CheckedSignature | undefined;
}

/**
 * A verified signature: its URL, the path that the caller states for the opened file, and the digests of all files or
 * pieces.
 */
export interface CheckedSignature {
  url: string;
  path: string | undefined;
  files: [path: string, digest: string, start: number | undefined, end: number | undefined][];
}

/** What `FileSystemFileHandle` and `FileSystemFileEntry` have in common. */
export interface FileHandle {
  name: string;
  getFile(): Promise<File>;
}

/** What `FileSystemDirectoryHandle` and `FileSystemDirectoryEntry` have in common. */
export interface FolderHandle {
  name: string;
  values(): AsyncIterable<FileHandle | FolderHandle>;
}

/** A checked source: an absolute URL as text, files with their paths, or anything else unchanged. */
export type CheckedSource = string | [file: File, path: string][] | object;

/** Checked options of `loadTensor`: `into` as a view of all its bytes. */
export interface CheckedTensorOptions {
  signal?: AbortSignal | undefined;
  into?: Uint8Array | undefined;
  /** The class of `into`, if the caller has passed a typed array. */
  intoArray?: string | undefined;
  rows?: [first: number, end: number] | undefined;
  as?: "F32" | "F16" | undefined;
  layout?: "dense" | undefined;
}

/** Checked options of `tensors`. */
export interface CheckedTensorsOptions {
  names?: string[] | undefined;
  order?: "file" | "given" | undefined;
  signal?: AbortSignal | undefined;
  as?: "F32" | "F16" | undefined;
  layout?: "dense" | undefined;
}

/**
 * Fills `array` from index `start` on: with `numbers`, or, if there is a `text`, with its pieces, of which `numbers`
 * are the lengths.
 */
export type AddItems = (array: unknown[], start: number, numbers: ArrayLike<number>, text?: string) => void;

/** Takes one batch of the index: see `addTensors` in `loader/list.js` and `src/js/list.rs`. */
export type AddTensors = (
  names: string, numbers: Float64Array, strings: string[], attributesOfSome: Record<string, unknown>[],
) => void;

/** The tensors of one `tensors()` call. */
export interface TensorStream {
  /** The next tensor; `undefined` at the end. */
  next(): Promise<Tensor | undefined>;
  /** Stops all requests of the stream. */
  cancel(): void;
}

/** A model as one SafeTensors file. */
export interface ModelView {
  readonly byteLength: number;
  /** Whether a read of the whole file compares checksums of the model's files. */
  hasFileChecks(): Promise<boolean>;
  /** Starts to read the bytes `[start, end)`. */
  read(start: number, end: number, signal?: AbortSignal): Promise<ViewReader>;
}

/** A range of a model as a file. */
export interface ViewReader {
  /** The next `length` bytes, or fewer at the end, in a buffer that the next call overwrites. */
  fill(length: number): Promise<Uint8Array<ArrayBuffer>>;
  /** Stops the request. */
  cancel(): void;
}

/** Tensors that are read one after another, in pieces. */
export interface TensorReader {
  /** The next tensor; `undefined` after the last one. */
  next(): Promise<TensorHead | undefined>;
  /** The next `length` bytes of the tensor, or fewer at its end, in a buffer that the next call overwrites. */
  fill(length: number): Promise<Uint8Array<ArrayBuffer>>;
  /** The algorithm that the tensor was verified with, once all its bytes were read. */
  verified(): Promise<Verified>;
  /** Stops the request, because its bytes cannot be used. */
  fail(): void;
  /** Stops the request. */
  cancel(): void;
}

/** A tensor that a `TensorReader` has begun to read. */
export interface TensorHead {
  name: string;
  /** The role of its only component. */
  role: string;
  dtype: Dtype;
  /** The name of the class of typed arrays for its elements. */
  arrayClass: string;
  shape: number[];
  byteLength: number;
}

/** An open model, in the module of this thread or in that of a worker. */
export interface ModelLoader {
  loadMetadata(add: AddItems, signal: AbortSignal | undefined): Promise<Metadata>;
  /** Resolves to the URLs or names of the files of the model. */
  loadIndex(add: AddTensors, signal: AbortSignal | undefined): Promise<string[]>;
  warnings(signal: AbortSignal | undefined): Promise<string[]>;
  loadTensor(name: string, options: CheckedTensorOptions): Promise<Tensor>;
  /** Resolves when no more tensors will arrive. Rejects if `signal` aborts or the loader is closed. */
  prefetch(names: string[], signal: AbortSignal | undefined): Promise<unknown>;
  tensors(options: CheckedTensorsOptions): TensorStream;
  verify(signal: AbortSignal | undefined): Promise<Verified>;
  /** A promise if the index of the model is not read yet. */
  openView(): ModelView | Promise<ModelView>;
  /** Starts to read the named tensors, or all. `isOne` makes the events of progress those of `loadTensor`. */
  readTensors(
    names: string[] | undefined, rows: [first: number, end: number] | undefined, isInOrder: boolean,
    isOne: boolean, as: "F32" | "F16" | undefined, signal: AbortSignal | undefined,
  ): Promise<TensorReader>;
  readonly stats: Omit<LoaderStats, "cachePersisted" | "crossOriginStorage">;
  close(): void;
}

/** Checked options of `openFile`. */
export interface CheckedFileOptions {
  signal?: AbortSignal | undefined;
  fetch?: typeof globalThis.fetch | undefined;
  headers?: [name: string, value: string][] | undefined;
  credentials?: RequestCredentials | undefined;
  onProgress?: ((event: LoadProgress) => void) | undefined;
  cache?: "auto" | "opfs" | "none" | WeightCache | undefined;
  cacheKey?: ((url: string) => string) | undefined;
  /** The mode, and for the module the functions of `cache/cross_origin_storage.js`. */
  crossOriginStorage?: boolean | "read" | CrossOriginAccess | undefined;
  digest?: string | undefined;
  retry?: { attempts?: number; baseDelay?: number; maxDelay?: number; stallTimeout?: number } | undefined;
  hub?: { endpoint?: string; token?: string } | undefined;
  /** As the caller passes it, until it is verified. */
  signature?: CheckedSignature | undefined;
}

/** An open file of any format. */
export class WasmFile {
  private constructor();
  static open(source: CheckedSource, options: CheckedFileOptions): Promise<WasmFile>;
  readonly byteLength: number | undefined;
  readonly contentType: string | undefined;
  /** The name under which the file is cached; undefined if it is not at a URL. */
  cacheName(): Promise<string | undefined>;
  /** Whether what is downloaded is cached, as far as it is known. */
  readonly isCaching: boolean;
  readonly stats: Omit<FileStats, "cachePersisted" | "crossOriginStorage">;
  read(start: number, end?: number, signal?: AbortSignal): WasmFileReader;
  close(): void;
}

/** A range of a file that is being read. */
export class WasmFileReader {
  private constructor();
  /** The next `length` bytes; all bytes of the range without it. */
  fill(length?: number): Promise<Uint8Array<ArrayBuffer>>;
  /** The bytes that have arrived next, in a buffer that the next call overwrites; `undefined` at the end. */
  chunk(): Promise<Uint8Array<ArrayBuffer> | undefined>;
  cancel(): void;
}

/** An open model in the module of this thread. */
export class Loader implements ModelLoader {
  private constructor();
  static open(source: CheckedSource, options: CheckedOpenOptions): Promise<Loader>;
  /** Whether what is downloaded is cached, as far as it is known. */
  readonly isCaching: boolean;
  loadMetadata(add: AddItems, signal: AbortSignal | undefined): Promise<Metadata>;
  loadIndex(add: AddTensors, signal: AbortSignal | undefined): Promise<string[]>;
  /** The names under which the files that have tensors are cached. */
  namesInCache(): string[];
  warnings(signal: AbortSignal | undefined): Promise<string[]>;
  loadTensor(name: string, options: CheckedTensorOptions): Promise<Tensor>;
  /** Resolves when no more tensors will arrive. Rejects if `signal` aborts or the loader is closed. */
  prefetch(names: string[], signal: AbortSignal | undefined): Promise<unknown>;
  tensors(options: CheckedTensorsOptions): TensorStream;
  verify(signal: AbortSignal | undefined): Promise<Verified>;
  /** A promise if the index of the model is not read yet. */
  openView(): ModelView | Promise<ModelView>;
  readTensors(
    names: string[] | undefined, rows: [first: number, end: number] | undefined, isInOrder: boolean,
    isOne: boolean, as: "F32" | "F16" | undefined, signal: AbortSignal | undefined,
  ): Promise<TensorReader>;
  readonly stats: Omit<LoaderStats, "cachePersisted" | "crossOriginStorage">;
  close(): void;
}
