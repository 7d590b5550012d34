// @ts-check
// A Blob whose reads are counted, and can be aborted.
import { checkAborted } from "../loader/abort.js";
import { lazyBlob } from "./blob.js";

/** @import { ExternalDataProgress } from "../runtimes/onnxruntime/onnxruntime.js" */

const INTERVAL_MS = 100;

/**
 * The same Blob, which calls `onProgress` while it is read, at most ten times a second, and once at the end: when all
 * its bytes have been read, a read has failed, `signal` has aborted, or `whenClosed` calls its listener. Bytes that are
 * read twice count once. After an abort, reads reject with its reason.
 *
 * @param {Blob} blob
 * @param {{ signal?: AbortSignal | undefined, onProgress?: ((event: ExternalDataProgress) => void) | undefined }} how
 * @param {(listener: () => void) => void} whenClosed
 */
export function observedBlob(blob, { signal, onProgress }, whenClosed) {
  const read = new ReadRanges();
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
    const event = { loaded: read.byteLength, total: blob.size, done: hasEnded };
    try {
      onProgress(outcome ? { ...event, outcome } : event);
    } catch (exception) {
      globalThis.reportError?.(exception); // it must not end the read
    }
  }

  if (onProgress) signal?.addEventListener("abort", abort);
  whenClosed(() => report("done"));
  return lazyBlob({
    byteLength: () => blob.size,
    open: async () => checkAborted(signal),
    async *read(start, end, stop) {
      const reader = blob.slice(start, end).stream().getReader();
      const cancel = () => void reader.cancel(signal?.reason).catch(() => {});
      stop?.addEventListener("abort", cancel);
      signal?.addEventListener("abort", cancel);
      try {
        for (let at = start; ;) {
          checkAborted(signal);
          const { value, done } = await reader.read();
          checkAborted(signal);
          if (done) return;
          read.add(at, (at += value.length));
          report(read.byteLength === blob.size ? "done" : undefined);
          yield value;
        }
      } catch (error) {
        if (!signal?.aborted) report("failed");
        throw error;
      } finally {
        signal?.removeEventListener("abort", cancel);
        cancel();
      }
    },
  }, blob.type);
}

/** Which bytes were read: ranges that neither touch nor overlap, in ascending order. */
class ReadRanges {
  /** @type {[start: number, end: number][]} */
  #ranges = [];
  byteLength = 0;

  /**
   * @param {number} start
   * @param {number} end
   */
  add(start, end) {
    const [before, after] = [this.#ranges.filter((range) => range[1] < start), this.#ranges.filter(([at]) => at > end)];
    const touching = this.#ranges.slice(before.length, this.#ranges.length - after.length);
    const first = Math.min(start, ...touching.map(([at]) => at));
    const last = Math.max(end, ...touching.map((range) => range[1]));
    this.byteLength += last - first - touching.reduce((sum, range) => sum + range[1] - range[0], 0);
    this.#ranges = [...before, [first, last], ...after];
  }
}
