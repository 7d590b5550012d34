// @ts-check
// `weightstream/onnxruntime`: the external data of an ONNX graph, for `InferenceSession.create`.
import { RemoteFile, StreamingLoader } from "../../weightstream.js";
import { observedBlob } from "../../file/observed.js";
import { checkAborted } from "../../loader/abort.js";
import { WHEN_CLOSED } from "../../loader/closing.js";
import { invalid } from "../../loader/error.js";
import { externalOptions } from "../../options/options.js";

/** @import * as Api from "./onnxruntime.js" */

/** @type {typeof Api.externalData} */
export async function externalData(source, path, given) {
  const how = externalOptions(given);
  if (typeof path !== "string" || path === "") {
    throw invalid("`path` must be the location of the external data, as it is in the ONNX graph");
  }
  checkAborted(how.signal);
  if (source instanceof StreamingLoader || source instanceof RemoteFile) {
    const data = source instanceof RemoteFile ? source.blob() : await source.toBlob();
    if (!how.signal && !how.onProgress) return [{ path, data }];
    const whenClosed = (/** @type {() => void} */ listener) => /** @type {any} */ (source)[WHEN_CLOSED](listener);
    return [{ path, data: observedBlob(data, how, whenClosed) }];
  }
  throw invalid("the source must be a StreamingLoader, or a RemoteFile, which openFile() returns");
}
