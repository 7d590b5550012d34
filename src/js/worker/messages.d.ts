/**
 * The messages between a page and its workers, as far as JavaScript sends them. Only the type check reads this file; it
 * is not part of the package. The messages of cache workers and of job workers are those of Rust (`src/cache`,
 * `src/workers`).
 */
import type { LoadProgress, LoaderStats, Metadata, Tensor, Verified } from "../weightstream.js";
import type {
  AddItems, AddTensors, CheckedOpenOptions, CheckedSource, CheckedTensorOptions, CheckedTensorsOptions,
  ErrorFields,
} from "../module/glue.js";

/** The first message to every worker: the compiled module to run, and which kind of worker to be. */
export type StartMessage = [module: WebAssembly.Module, role: WorkerRole];

export type WorkerRole = "cache" | "jobs" | "loader";

/** The methods of a loader that a page calls in a worker, with their arguments and results. */
export interface RemoteMethods {
  open: (source: CheckedSource, options: RemoteOpenOptions) => undefined;
  loadMetadata: () => Metadata;
  loadIndex: () => string[];
  warnings: () => string[];
  loadTensor: (name: string, options: Omit<CheckedTensorOptions, "signal">) => Tensor;
  tensors: (options: Omit<CheckedTensorsOptions, "signal">) => undefined;
  prefetch: (names: string[]) => undefined;
  verify: () => Verified;
  /** The length in bytes of the model as one SafeTensors file. */
  openView: () => number;
  /** Whether a read of that whole file compares checksums of the model's files. */
  hasFileChecks: () => boolean;
  /** Starts to read a range of that file. The page chooses the number of the reader. */
  readView: (reader: number, range: [start: number, end: number]) => undefined;
  /** Starts to read tensors. The page chooses the number of the reader. */
  readTensors: (
    reader: number, names: string[] | undefined, rows: [first: number, end: number] | undefined, isInOrder: boolean,
    isOne: boolean, as: "F32" | "F16" | undefined,
  ) => undefined;
  /** Calls a method of a reader. `fill` may use the memory of `piece`, an earlier result. */
  callReader: (
    reader: number, method: "next" | "fill" | "verified" | "fail" | "cancel", length?: number, piece?: ArrayBuffer,
  ) => any;
}

/** Options of `open` without those that cannot be cloned. `onProgress` says whether the page wants progress events. */
export type RemoteOpenOptions =
  & Omit<CheckedOpenOptions, "signal" | "fetch" | "cacheKey" | "partUrl" | "onProgress" | "crossOriginStorage">
  & { partUrl?: false; onProgress: boolean; crossOriginStorage?: { port: MessagePort; isWritten: boolean } };

/** What a page sends to a worker that loads. */
export type RequestMessage = CallMessage | AbortMessage | CreditMessage | CloseMessage;

/** Calls a method. The replies have the same number. */
export type CallMessage = {
  [Method in keyof RemoteMethods]: { number: number; method: Method; args: Parameters<RemoteMethods[Method]> }
}[keyof RemoteMethods];

/** Aborts a call. Nothing is sent in reply. */
export interface AbortMessage {
  number: number;
  isStopped: true;
}

/** Flow control of `tensors`: the page has taken this many bytes, so that the worker may send as many more. */
export interface CreditMessage {
  number: number;
  takenBytes: number;
}

/** Closes the loader. The worker replies with `hasEnded` when everything is written to the cache. */
export interface CloseMessage {
  isClosed: true;
}

/** What a worker that loads sends to its page. Every message but `hasStarted` and `crash` may come with new `stats`. */
export interface ReplyMessage {
  /** The first message: the worker runs and waits for `open`. */
  hasStarted?: true;
  /** The last message: the module of the worker has crashed. */
  crash?: ErrorFields;
  /** The loader is closed, and the worker may serve another one. */
  hasEnded?: true;
  stats?: Omit<LoaderStats, "cachePersisted" | "crossOriginStorage"> | undefined;
  progress?: LoadProgress;
  /** The number of the call that the fields below belong to. */
  number?: number;
  /** Arguments of the `add` callback of `loadMetadata` or `loadIndex`, one list for each call of it. */
  pieces?: Parameters<AddItems>[] | Parameters<AddTensors>[];
  /** The next tensor of `tensors`. */
  tensor?: SentTensor;
  /** The call has failed. */
  failure?: ErrorFields;
  /** The call has succeeded, with `value` as its result. */
  isDone?: true;
  value?: unknown;
}

/** A tensor with the number of its bytes that count for flow control. */
export interface SentTensor {
  tensor: Tensor;
  byteLength: number;
}
