// @ts-check
// A model or a file as external data, which is read ahead of the session.
import { StreamingLoader } from "../../weightstream.js";
import { IS_CACHING as IS_FILE_CACHING } from "../../file/file.js";
import { IS_CACHING } from "../../loader/loader.js";
import { sourceOf } from "../../file/blob.js";
import { ReadAhead } from "./read_ahead.js";
import { externalRanges } from "./graph.js";
import { joined, tensorRanges } from "./ranges.js";
import { RecordedOrder } from "./recorded_order.js";

/** @import { RemoteFile } from "../../weightstream.js" */
/** @import { BlobSource } from "../../file/blob.js" */
/** @import { Range } from "./ranges.js" */

/** The default of `readAhead`: what a line of 100 Mb/s transfers while ONNX Runtime is compiled in Firefox. */
const READ_AHEAD_BYTES = 64 * 1024 * 1024;

/**
 * The bytes of the source, of which the first are requested now: ONNX Runtime reads nothing before it is compiled, and
 * then one tensor after another.
 *
 * @param {StreamingLoader | RemoteFile} source
 * @param {string} path
 * @param {{ graph?: Uint8Array<ArrayBuffer>, readAhead?: number, signal?: AbortSignal }} how
 * @param {(listener: () => void) => void} whenClosed
 * @returns {Promise<BlobSource>}
 */
export async function withReadAhead(source, path, { graph, readAhead = READ_AHEAD_BYTES, signal }, whenClosed) {
  const isModel = source instanceof StreamingLoader;
  const blob = isModel ? await source.toBlob() : source.blob();
  const direct = sourceOf(blob);
  const { size } = blob;
  if (readAhead === 0) return direct;
  /** @type {Range[]} Nothing says which bytes of a file belong to the graph, so none are read before the first visit. */
  let inFile = [];
  if (graph) inFile = externalRanges(graph, path).map(([start, end]) => [start, Math.min(end, size)]);
  else if (isModel) inFile = tensorRanges(await source.loadIndex(), size);
  const isCaching = /** @type {any} */ (source)[isModel ? IS_CACHING : IS_FILE_CACHING];
  const order = isCaching ? await RecordedOrder.open(path, size, inFile) : new RecordedOrder(undefined, inFile);
  const ahead = new ReadAhead(direct.read, joined(order.ranges), readAhead);
  const stop = () => {
    ahead.stop();
    signal?.removeEventListener("abort", stop);
  };
  signal?.addEventListener("abort", stop);
  whenClosed(() => {
    stop();
    order.save();
  });
  /** Whether all bytes must be read in one go, because only then they are compared with checksums of files. */
  const isDirect = async (/** @type {number} */ start, /** @type {number} */ end) =>
    start === 0 && end === size && (!direct.hasFileChecks || (await direct.hasFileChecks()));
  return {
    byteLength: direct.byteLength,
    open: direct.open,
    async *read(start, end, stopped) {
      if (await isDirect(start, end)) {
        stop();
        yield* direct.read(start, end, stopped);
      } else {
        order.add(start, end);
        yield* ahead.read(start, end, stopped);
      }
    },
  };
}
