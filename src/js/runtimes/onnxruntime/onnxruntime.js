// @ts-check
// `weightstream/onnxruntime`: the external data of an ONNX graph, for `InferenceSession.create`.
import { RemoteFile, StreamingLoader } from "../../weightstream.js";
import { lazyBlob } from "../../file/blob.js";
import { observed } from "../../file/observed.js";
import { checkAborted } from "../../loader/abort.js";
import { WHEN_CLOSED } from "../../loader/closing.js";
import { invalid } from "../../loader/error.js";
import { externalOptions, prepareOptions, streamedOptions } from "./options.js";
import { withReadAhead } from "./ahead.js";
import { openStreamed } from "./streamed.js";

/** @import * as Api from "./onnxruntime.js" */
/** @import { CloseListeners } from "../../loader/closing.js" */
/** @import { BlobSource } from "../../file/blob.js" */

/** @type {typeof Api.externalData} */
export async function externalData(source, path, given) {
  const how = externalOptions(given);
  checkPath(path);
  checkAborted(how.signal);
  return [{ path, data: lazyBlob(await dataOf(source, path, how), "") }];
}

/** @type {typeof Api.prepare} */
export function prepare(source, path, given) {
  const { open, ...how } = prepareOptions(given);
  checkPath(path);
  const { signal } = how;
  const opened = StreamingLoader.open(source, { ...(signal && { signal }), ...open });
  const opening = opened.then((loader) => dataOf(loader, path, how));
  const loader = opening.then(() => opened);
  loader.catch(() => {
    // The session rejects, too.
    if (how.onProgress) report(how.onProgress, signal?.aborted ? "aborted" : "failed");
  });
  /** @type {BlobSource | undefined} */
  let data;
  const pending = {
    // ONNX Runtime compares the end of each range with the length, perhaps before it is known.
    byteLength: () => (data ? data.byteLength() : Number.MAX_SAFE_INTEGER),
    async open() {
      data = await opening;
      await data.open();
    },
    /**
     * @param {number} start
     * @param {number} end
     * @param {AbortSignal} [stop]
     */
    async *read(start, end, stop) {
      yield* (await opening).read(start, end, stop);
    },
  };
  const close = () => void opened.then((loader) => loader.close(), () => {});
  return { externalData: [{ path, data: lazyBlob(pending, "") }], loader, close };
}

/** @type {typeof Api.streamed} */
export async function streamed(graph, given) {
  const how = streamedOptions(given);
  const { signal, onProgress, readAhead } = how;
  checkAborted(signal);
  const observed = { ...(signal && { signal }), ...(onProgress && { onProgress }) };
  const ahead = readAhead === undefined ? {} : { readAhead };
  return openStreamed(graph, how, (loader, path, inOrder, ends) =>
    dataOf(loader, path, { ...observed, ...ahead, inOrder }, ends));
}

/**
 * The only event of data that cannot be opened.
 *
 * @param {(event: Api.ExternalDataProgress) => void} onProgress
 * @param {"failed" | "aborted"} outcome
 */
function report(onProgress, outcome) {
  try {
    onProgress({ loaded: 0, total: 0, done: true, outcome });
  } catch (exception) {
    globalThis.reportError?.(exception);
  }
}

/** @param {string} path */
function checkPath(path) {
  if (typeof path !== "string" || path === "") {
    throw invalid("`path` must be the location of the external data, as it is in the ONNX graph");
  }
}

/**
 * @param {StreamingLoader | RemoteFile} source
 * @param {string} path
 * @param {ReturnType<typeof externalOptions> & { inOrder?: import("./ranges.js").Range[] }} how
 * @param {CloseListeners} [ends] Calls its listeners when the data are not needed any more.
 */
async function dataOf(source, path, how, ends) {
  if (!(source instanceof StreamingLoader || source instanceof RemoteFile)) {
    throw invalid("the source must be a StreamingLoader, or a RemoteFile, which openFile() returns");
  }
  const whenClosed = (/** @type {() => void} */ listener) => {
    ends?.add(listener);
    return /** @type {any} */ (source)[WHEN_CLOSED](listener);
  };
  return observed(await withReadAhead(source, path, how, whenClosed), how, whenClosed);
}
