// @ts-check
// A model or a file as external data, which is read ahead of the session.
import { StreamingLoader } from "../../weightstream.js";
import { IS_CACHING as IS_FILE_CACHING } from "../../file/file.js";
import { IS_CACHING } from "../../loader/loader.js";
import { sourceOf } from "../../file/blob.js";
import { checkAborted } from "../../loader/abort.js";
import { ReadAhead } from "./read_ahead.js";
import { externalRanges } from "./graph.js";
import { joined, tensorRanges } from "./ranges.js";
import { RecordedOrder } from "./recorded_order.js";

/** @import { RemoteFile } from "../../weightstream.js" */
/** @import { BlobSource } from "../../file/blob.js" */
/** @import { Pieces } from "../../file/stream.js" */
/** @import { Range } from "./ranges.js" */

/** The default of `readAhead`: what a line of 100 Mb/s transfers while ONNX Runtime is compiled in Firefox. */
const READ_AHEAD_BYTES = 64 * 1024 * 1024;

/**
 * The bytes of the source, of which the first are requested now: ONNX Runtime reads nothing before it is compiled, and
 * then one tensor after another.
 *
 * @param {StreamingLoader | RemoteFile} source
 * @param {string} path
 * @param {{ graph?: Uint8Array<ArrayBuffer>, inOrder?: Range[], readAhead?: number, signal?: AbortSignal }} how
 *   `inOrder` are the ranges that will be needed, if their order is known.
 * @param {(listener: () => void) => void} whenClosed
 * @returns {Promise<BlobSource>}
 */
export async function withReadAhead(source, path, how, whenClosed) {
  const { graph, inOrder, readAhead = READ_AHEAD_BYTES, signal } = how;
  /** @type {(() => void)[]} What is done on an abort, and when the source is closed. */
  const ends = [];
  let hasEnded = false;
  const end = () => {
    hasEnded = true;
    signal?.removeEventListener("abort", end);
    for (const stop of ends) stop();
  };
  signal?.addEventListener("abort", end);
  whenClosed(end);

  const isModel = source instanceof StreamingLoader;
  const blob = isModel ? await source.toBlob() : source.blob();
  const direct = sourceOf(blob);
  const { size } = blob;
  if (readAhead === 0) return direct;
  /** @type {Range[]} Nothing says which bytes of a file belong to the graph, so a first visit reads none of them. */
  let inFile = [];
  if (inOrder) inFile = inOrder;
  else if (graph) inFile = externalRanges(graph, path).map(([start, end]) => [start, Math.min(end, size)]);
  else if (isModel) inFile = tensorRanges(await source.loadIndex(), size);
  const isCaching = !hasEnded && /** @type {any} */ (source)[isModel ? IS_CACHING : IS_FILE_CACHING];
  const isRecorded = isCaching && !inOrder;
  const order = isRecorded ? await RecordedOrder.open(path, size, inFile) : new RecordedOrder(undefined, inFile);
  checkAborted(signal);
  if (hasEnded) return direct; // its reads reject
  const ranges = inOrder ?? joined(order.ranges);
  // The blocks that a file keeps for reads that overlap would be kept a second time.
  const file = isModel ? undefined : source;
  const read = file && ((/** @type {number} */ start, /** @type {number} */ end, /** @type {AbortSignal} */ signal) =>
    piecesOf(file.stream({ start, end, signal })));
  const ahead = new ReadAhead({ ahead: /** @type {any} */ (read ?? direct.read), now: direct.read }, ranges, readAhead);
  ends.push(() => {
    ahead.stop();
    if (!signal?.aborted) order.save();
  });

  /** Whether all bytes must be read in one go, because only then they are compared with checksums of files. */
  const isDirect = async () => {
    if (direct.hasFileChecks) return direct.hasFileChecks();
    return !ranges.some(([start, end]) => start === 0 && end === size);
  };
  return {
    byteLength: direct.byteLength,
    open: direct.open,
    async *read(start, end, stopped) {
      const isWhole = start === 0 && end === size;
      if (isWhole && (await isDirect())) {
        ahead.clear();
        yield* direct.read(start, end, stopped);
      } else {
        if (!isWhole) order.add(start, end);
        yield* ahead.read(start, end, stopped);
      }
    },
  };
}

/**
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream
 * @returns {Pieces}
 */
async function* piecesOf(stream) {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {}); // it may have failed
  }
}
