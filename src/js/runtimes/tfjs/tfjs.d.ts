/**
 * Models of TensorFlow.js, for `tf.loadGraphModel` and `tf.loadLayersModel`.
 *
 * @module weightstream/tfjs
 */
import type { Digest, OpenFilesOptions, StreamingLoader } from "../../weightstream.js";

/** Options of {@link ioHandler} for a model that is open. */
export interface OpenModelOptions {
  /** Aborts the load of the weights, which then rejects with the `reason` of the signal. Default: none. */
  signal?: AbortSignal | null | undefined;
  /** Called with the part of the weights that is loaded, from 0 to 1, after each of them. Default: none. */
  onProgress?: ((fraction: number) => void) | undefined;
  /** Whether `load()` gives a stream of weights: see {@link IoHandlerOptions.streamWeights}. */
  streamWeights?: boolean | undefined;
}

/**
 * Options of {@link ioHandler} for a URL: those of `openFile`, for every file, and some of `tf.io.http`. `headers` and
 * `credentials` are sent to the origin of the model's URL, or instead to those of `origins`.
 */
export interface IoHandlerOptions extends
  Pick<
    OpenFilesOptions,
    "signal" | "fetch" | "headers" | "credentials" | "origins" | "cache" | "cacheKey" | "crossOriginStorage" | "retry"
  > {
  /**
   * The digests that files must have, by their path in `model.json`, their name or their URL. A file with another
   * digest rejects with `CHECKSUM`, before its last bytes are used. Default: none.
   */
  digests?: Readonly<Record<string, Digest>> | undefined;
  /** Called with the part of the weights that has arrived, from 0 to 1. Default: none. */
  onProgress?: ((fraction: number) => void) | undefined;
  /**
   * Whether `load()` gives a stream of weights (`getWeightStream`) or all of them in memory (`weightData`).
   * `tf.loadLayersModel` and `tf.io.decodeWeights` need them in memory. Default: `true` for graph models, `false` for
   * all others.
   */
  streamWeights?: boolean | undefined;
  /** What precedes the paths of the weights. Default: the URL of the folder of `model.json`. */
  weightPathPrefix?: string | undefined;
  /** Returns the URL of a file of weights, for its path in `model.json`. */
  weightUrlConverter?: ((path: string) => string | Promise<string>) | undefined;
}

/** How TensorFlow.js stores a quantized weight. */
export interface TfjsQuantization {
  /** The factor of integers. */
  scale?: number;
  /** The value of the integer 0. */
  min?: number;
  /** The stored data type. */
  dtype: "uint16" | "uint8" | "float16";
}

/** The `WeightsManifestEntry` of TensorFlow.js: one weight. */
export interface TfjsWeightSpec {
  /** The name, unique in the model. */
  name: string;
  /** The dimensions, outermost first. */
  shape: number[];
  /** The data type of the weight in TensorFlow.js. */
  dtype: "float32" | "int32" | "bool" | "string" | "complex64";
  /** Whether the weight belongs to the model or to its optimizer. */
  group?: "model" | "optimizer";
  /** How the weight is stored, if not in its own data type. */
  quantization?: TfjsQuantization;
}

/** The `ModelArtifacts` of TensorFlow.js: the content of `model.json`, and the weights. */
export interface TfjsArtifacts {
  /** The graph or the layers. */
  modelTopology?: {};
  /** The weights, in the order of their bytes. */
  weightSpecs?: TfjsWeightSpec[];
  /** All weights, one after the other. */
  weightData?: ArrayBuffer;
  /** Returns a stream of the weights, with one buffer for each. */
  getWeightStream?: () => ReadableStream<ArrayBuffer>;
  /** How the model is trained. */
  trainingConfig?: any;
  /** The kind of the model, such as `"graph-model"`. */
  format?: string;
  /** The tool that made the model. */
  generatedBy?: string;
  /** The tool that converted the model. */
  convertedBy?: string | null;
  /** The inputs and outputs of the graph. */
  signature?: {};
  /** Metadata of the app. */
  userDefinedMetadata?: { [key: string]: {} };
  /** The graph that initializes the tables of the model. */
  modelInitializer?: {};
  /** The inputs and outputs of `modelInitializer`. */
  initializerSignature?: {};
}

/** An `IOHandler` of TensorFlow.js that loads. */
export interface TfjsHandler {
  /** Loads `model.json` and the weights. */
  load(): Promise<TfjsArtifacts>;
}

/**
 * Returns an `IOHandler` for the `model.json` of a model, or for a list of weights (`*-weights_manifest.json`).
 *
 * ```js
 * const model = await tf.loadGraphModel(ioHandler("/model/model.json"));
 * ```
 *
 * `load()` rejects with `FORMAT` if a file of weights has fewer or more bytes than `model.json` states. With a stream,
 * the reader of the stream gets this error.
 */
export function ioHandler(url: string | URL, options?: IoHandlerOptions): TfjsHandler;
/**
 * Returns an `IOHandler` for a model that is open, in any format: a `model.json` from local files, or what
 * `weightstream convert` made of one, which keeps its topology in the metadata. Without a topology, `load()` gives the
 * weights for `tf.io.decodeWeights`.
 *
 * ```js
 * const model = await tf.loadGraphModel(ioHandler(await StreamingLoader.open("/model.zt")));
 * ```
 *
 * If TensorFlow.js lacks the dtype of a weight, such as BF16 or Q8_0, all floats become F32. `load()` rejects with
 * `UNSUPPORTED` for integers that it lacks, and for a `model.json` with texts among its weights. The loader stays open.
 */
export function ioHandler(model: StreamingLoader, options?: OpenModelOptions): TfjsHandler;
