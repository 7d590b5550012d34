/**
 * Weights for ONNX Runtime Web: the external data of a graph, read when they are needed.
 *
 * @module weightstream/onnxruntime
 */
import type { OpenOptions, RemoteFile, Source, StreamingLoader } from "../../weightstream.js";

/** A file of external data of a graph, as ONNX Runtime Web takes it. */
export interface ExternalDataFile {
  /** The location of the file in the graph. */
  path: string;
  /** The content, which is read when it is needed. */
  data: Blob;
}

/** How much of the external data has been read. */
export interface ExternalDataProgress {
  /** The bytes that have been read. Those that are read twice count once. */
  readonly loaded: number;
  /** The length of the file, of which a session may need only a part. */
  readonly total: number;
  /** Whether this is the last event. There is exactly one. */
  readonly done: boolean;
  /**
   * Of the last event: `"done"` once all bytes have been read, or the loader or the file was closed; `"failed"`; or
   * `"aborted"`.
   */
  readonly outcome?: "done" | "failed" | "aborted";
}

/** Options of {@link externalData}. */
export interface ExternalDataOptions {
  /** Aborts the reads, which then reject with the `reason` of the signal, and so does the session. Default: none. */
  signal?: AbortSignal | null | undefined;
  /** Called while the data are read, at most ten times a second, and once at the end. Default: none. */
  onProgress?: ((event: ExternalDataProgress) => void) | undefined;
  /**
   * The bytes of the graph. They say which parts of the data the session needs, so that only these are read ahead.
   * Default: all tensors of a loader; of a file, what an earlier session has read.
   */
  graph?: Uint8Array | ArrayBuffer | undefined;
  /**
   * How many bytes are requested before the session asks for them, at most. ONNX Runtime asks for nothing until it is
   * compiled, and then for one tensor after another, in an order of its own. If the data are cached, this order is
   * recorded when the loader or the file is closed, for the next visit. 0 reads nothing ahead. Default: 64 MiB.
   */
  readAhead?: number | undefined;
}

/** Options of {@link prepare}. */
export interface PrepareOptions extends ExternalDataOptions {
  /** Options of `StreamingLoader.open`. Default: those of `open`, and the same `signal`. */
  open?: OpenOptions | undefined;
}

/** Weights that {@link prepare} loads. */
export interface PreparedData {
  /** The option of `InferenceSession.create`. The `size` of the Blob is not that of the data until they are open. */
  readonly externalData: ExternalDataFile[];
  /**
   * The loader of the weights. It rejects if they cannot be opened, or not be stored in a SafeTensors file. The session
   * then rejects with an error of ONNX Runtime.
   */
  readonly loader: Promise<StreamingLoader>;
  /** Closes the loader, also one that is still being opened. Call it when the session is created, or has failed. */
  close(): void;
}

/**
 * Returns the `externalData` option of `InferenceSession.create` for the external data of a graph in one file. `path`
 * is the location of the data, as it is in the graph. For several files, pass the items of several calls.
 *
 * The source is the file itself, or a loader of a model in any format, compressed or in several files: the graph then
 * refers to the SafeTensors file that {@link StreamingLoader.toBlob} presents. `weightstream convert model.onnx out/`
 * writes such a graph and its weights.
 *
 * With the JSPI build of ONNX Runtime Web (`ort.jspi.min.mjs`), the bytes of each initializer are requested when it is
 * created, and the whole file is never in memory. The other builds read the whole file. Keep the file or the loader
 * open until the session is created.
 *
 * ```js
 * const loader = await StreamingLoader.open("/model/model.apr");
 * const session = await ort.InferenceSession.create("/model/model.onnx", {
 *   externalData: await externalData(loader, "model.safetensors"),
 * });
 * loader.close();
 * ```
 *
 * Rejects with `UNSUPPORTED` if the server does not state the length of the file, or if a tensor of the model cannot be
 * stored in a SafeTensors file.
 */
export function externalData(
  source: StreamingLoader | RemoteFile, path: string, options?: ExternalDataOptions,
): Promise<ExternalDataFile[]>;

/**
 * Opens the weights of a graph and reads them ahead, while the page loads ONNX Runtime. Returns at once. For pages that
 * know early which model they need; otherwise like {@link externalData} of a loader.
 *
 * ```js
 * const weights = prepare("/model/model.apr", "model.safetensors");
 * const ort = await import("onnxruntime-web/jspi");
 * const { externalData } = weights;
 * const session = await ort.InferenceSession.create("/model/model.onnx", { externalData });
 * weights.close();
 * ```
 *
 * Throws for invalid arguments. Other errors reject `loader` and the session.
 */
export function prepare(source: Source, path: string, options?: PrepareOptions): PreparedData;

/** What {@link streamed} uses of ONNX Runtime Web. */
export interface Runtime<Tensor = any> {
  /** The class of sessions. */
  readonly InferenceSession: {
    /** Creates the session of a graph. */
    create(graph: Uint8Array, options?: any): Promise<RuntimeSession<Tensor>>;
  };
}

/** What {@link streamed} uses of a session of ONNX Runtime Web. */
export interface RuntimeSession<Tensor = any> {
  /** Computes the outputs of the graph. */
  run(feeds: Record<string, Tensor>, options?: any): Promise<{ readonly [name: string]: Tensor }>;
  /** Frees the memory. */
  release(): Promise<void>;
}

/** Options of {@link streamed}. */
export interface StreamedOptions<Tensor = any> {
  /** ONNX Runtime Web, such as the module `onnxruntime-web/jspi`, or a promise of it. */
  ort: Runtime<Tensor> | PromiseLike<Runtime<Tensor>>;
  /**
   * The weights: a loader, or what `StreamingLoader.open` takes. If it is given, the weights are requested together
   * with the graph. Default: the file beside the graph that `weightstream convert` has written.
   */
  weights?: Source | StreamingLoader | undefined;
  /** Options of `InferenceSession.create`, such as `executionProviders`. Default: those of ONNX Runtime. */
  session?: object | undefined;
  /**
   * Options of `StreamingLoader.open`, with which the graph is opened, too: `headers` are sent to the origins of both.
   * Default: the same `signal`.
   */
  open?: OpenOptions | undefined;
  /** How many bytes are requested before a part asks for them, at most. Default: 64 MiB. */
  readAhead?: number | undefined;
  /**
   * Aborts the load: calls that have not ended reject with the `reason` of the signal. It has no effect once all
   * weights have arrived. Default: none.
   */
  signal?: AbortSignal | null | undefined;
  /** Called while the weights are read, at most ten times a second, and once at the end. Default: none. */
  onProgress?: ((event: ExternalDataProgress) => void) | undefined;
}

/** A graph in parts, each in a session of its own. */
export interface StreamedSession<Tensor = any> {
  /** The inputs of the graph. */
  readonly inputNames: readonly string[];
  /** The outputs of the graph. */
  readonly outputNames: readonly string[];
  /** Resolves when the weights of all parts have arrived. Rejects with the reason if they do not. */
  readonly loaded: Promise<void>;
  /**
   * Computes the outputs of the graph. It may be called at once: each part computes as soon as it is there. Calls end
   * in their order. `options` are those of the method `run` of ONNX Runtime, for each part.
   */
  run(feeds: Record<string, Tensor>, options?: object): Promise<Record<string, Tensor>>;
  /** Frees the memory. Weights that are still arriving are not needed any more. */
  release(): Promise<void>;
}

/**
 * Opens a graph that computes while its weights arrive: `weightstream convert model.onnx out/ --by-layer` writes it and
 * its weights. Each part becomes a session of its own. Resolves when the graph is read and its weights are requested.
 *
 * ```js
 * const session = await streamed("/model/model.onnx", { ort: import("onnxruntime-web/jspi") });
 * const { logits } = await session.run({ input_ids, attention_mask });
 * await session.release();
 * ```
 *
 * The source of the graph is what `openFile` takes, or its bytes.
 *
 * Rejects with `INVALID_ARGUMENT` for a graph without marked parts, and with `FORMAT` for one that is damaged or does
 * not belong to the weights.
 */
export function streamed<Tensor = any>(
  graph: Source | Uint8Array | ArrayBuffer, options: StreamedOptions<Tensor>,
): Promise<StreamedSession<Tensor>>;
