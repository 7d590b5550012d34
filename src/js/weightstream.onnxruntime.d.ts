/** Weights for ONNX Runtime Web: the external data of a graph, read when they are needed. */
import type { RemoteFile } from "./weightstream.js";

/**
 * Returns the `externalData` option of `InferenceSession.create` for the external data of a graph in one file. `path`
 * is the location of the data, as it is in the graph. For several files, pass the items of several calls.
 *
 * With the JSPI build of ONNX Runtime Web (`ort.jspi.min.mjs`), the bytes of each initializer are requested when it is
 * created, and the whole file is never in memory. The other builds read the whole file. Keep the file open until the
 * session is created.
 *
 * ```js
 * const file = await openFile("/model/weights.bin");
 * const session = await ort.InferenceSession.create("/model/model.onnx", {
 *   externalData: await externalData(file, "weights.bin"),
 * });
 * file.close();
 * ```
 *
 * Rejects with `UNSUPPORTED` if the server does not state the length of the file.
 */
export function externalData(file: RemoteFile, path: string): Promise<{ path: string; data: Blob }[]>;
