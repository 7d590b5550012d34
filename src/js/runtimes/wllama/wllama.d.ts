/**
 * GGUF models for wllama, read when they are needed.
 *
 * @module weightstream/wllama
 */
import type { Disposing, OpenFilesOptions } from "../../weightstream.js";

/**
 * Options of {@link modelBlobs}: those of `openFile`, for every file. `headers` and `credentials` are sent to the
 * origin of the first URL, or instead to those of `origins`.
 */
export type ModelBlobsOptions = Omit<OpenFilesOptions, "type" | "digest">;

/** The files of a model, for `wllama.loadModel`. */
export interface ModelBlobs extends Array<Blob>, Disposing {
  /**
   * Stops all requests and frees the memory. Later reads of the Blobs reject with `CLOSED`. Call it when `loadModel`
   * has settled: wllama has then read the whole model. A call during `loadModel` aborts it.
   */
  close(): void;
}

/**
 * Opens the files of a GGUF model and resolves to their Blobs for `wllama.loadModel`, in the given order. Each Blob
 * requests the bytes that are read from it. wllama reads some of them twice: they are kept in memory for that.
 *
 * `urls` are the URLs of all files of a split model, in order. If it is a single URL that ends with
 * `-00001-of-00005.gguf`, all five files are opened.
 *
 * ```js
 * const blobs = await modelBlobs("/model.gguf");
 * try {
 *   await wllama.loadModel(blobs);
 * } finally {
 *   blobs.close();
 * }
 * ```
 *
 * Rejects if one of the files cannot be read, and with `UNSUPPORTED` if a server does not state its length.
 */
export function modelBlobs(
  urls: string | URL | readonly (string | URL)[],
  options?: ModelBlobsOptions,
): Promise<ModelBlobs>;
