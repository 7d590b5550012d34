// @ts-check
// `weightstream/onnxruntime`: the external data of an ONNX graph, for `InferenceSession.create`.
import { RemoteFile, StreamingLoader } from "../../weightstream.js";
import { invalid } from "../../loader/error.js";

/** @import * as Api from "./onnxruntime.js" */

/** @type {typeof Api.externalData} */
export async function externalData(source, path) {
  if (typeof path !== "string" || path === "") {
    throw invalid("`path` must be the location of the external data, as it is in the ONNX graph");
  }
  if (source instanceof StreamingLoader) return [{ path, data: await source.toBlob() }];
  if (source instanceof RemoteFile) return [{ path, data: source.blob() }];
  throw invalid("the source must be a StreamingLoader, or a RemoteFile, which openFile() returns");
}
