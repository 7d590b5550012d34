// @ts-check
// `weightstream/onnxruntime`: the external data of an ONNX graph, for `InferenceSession.create`.
import { RemoteFile } from "./weightstream.js";
import { invalid } from "./weightstream.error.js";

/** @import * as Api from "./weightstream.onnxruntime.js" */

/** @type {typeof Api.externalData} */
export async function externalData(file, path) {
  if (!(file instanceof RemoteFile)) throw invalid("`file` must be a RemoteFile, which openFile() returns");
  if (typeof path !== "string" || path === "") {
    throw invalid("`path` must be the location of the external data, as it is in the ONNX graph");
  }
  return [{ path, data: file.blob() }];
}
