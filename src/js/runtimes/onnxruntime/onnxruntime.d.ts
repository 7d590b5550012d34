/**
 * Weights for ONNX Runtime Web: the external data of a graph, read when they are needed.
 *
 * @module weightstream/onnxruntime
 */
import type { RemoteFile, StreamingLoader } from "../../weightstream.js";

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
