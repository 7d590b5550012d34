// @ts-check
// A file whose reads are counted, and can be aborted.
import { checkAborted } from "../loader/abort.js";
import { ByteRanges } from "./byte_ranges.js";

/** @import { ExternalDataProgress } from "../runtimes/onnxruntime/onnxruntime.js" */
/** @import { BlobSource } from "./blob.js" */

const INTERVAL_MS = 100;

/**
 * The same file, which calls `onProgress` while it is read, at most ten times a second, and once at the end: when all
 * its bytes have been read, a read has failed, `signal` has aborted, or `whenClosed` calls its listener. Bytes that are
 * read twice count once. After an abort, reads reject with its reason.
 *
 * @param {BlobSource} source
 * @param {{ signal?: AbortSignal | undefined, onProgress?: ((event: ExternalDataProgress) => void) | undefined }} how
 * @param {(listener: () => void) => void} whenClosed
 * @returns {BlobSource}
 */
export function observed(source, { signal, onProgress }, whenClosed) {
  if (!signal && !onProgress) return source;
  const read = new ByteRanges();
  let reportedAt = 0;
  let hasEnded = false;

  const abort = () => report("aborted");

  /** @param {ExternalDataProgress["outcome"]} [outcome] */
  function report(outcome) {
    if (hasEnded || !onProgress) return;
    const now = performance.now();
    if (!outcome && now - reportedAt < INTERVAL_MS) return;
    reportedAt = now;
    hasEnded = outcome !== undefined;
    if (hasEnded) signal?.removeEventListener("abort", abort);
    const event = { loaded: read.byteLength, total: source.byteLength() ?? 0, done: hasEnded };
    try {
      onProgress(outcome ? { ...event, outcome } : event);
    } catch (exception) {
      globalThis.reportError?.(exception); // it must not end the read
    }
  }

  if (onProgress) signal?.addEventListener("abort", abort);
  if (signal?.aborted) abort();
  whenClosed(() => report("done"));
  return {
    byteLength: source.byteLength,
    async open() {
      checkAborted(signal);
      await source.open();
    },
    async *read(start, end, stop) {
      const controller = new AbortController();
      const cancel = () => controller.abort((signal?.aborted ? signal : stop)?.reason);
      for (const either of [signal, stop]) {
        either?.addEventListener("abort", cancel);
        if (either?.aborted) cancel();
      }
      try {
        for await (const piece of source.read(start, end, controller.signal)) {
          checkAborted(signal);
          read.add(start, (start += piece.length));
          report(read.byteLength === source.byteLength() ? "done" : undefined);
          yield piece;
          checkAborted(signal);
        }
      } catch (error) {
        checkAborted(signal);
        if (!stop?.aborted) report("failed");
        throw error;
      } finally {
        for (const either of [signal, stop]) either?.removeEventListener("abort", cancel);
      }
    },
  };
}
