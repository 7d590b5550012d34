// @ts-check
// The weights of a model of TensorFlow.js, one at a time, from the files in which they are concatenated.
import { fail } from "../../loader/error.js";
import { byteLengthOf, valuesIn } from "./manifest.js";
import { joined } from "../../request/response.js";
import { ShardQueue } from "./shard_queue.js";

/** @import { TfjsWeightSpec } from "./tfjs.js" */
/** @import { Shard } from "./shard_queue.js" */

/** @typedef {Uint8Array<ArrayBuffer>} Bytes */
/** @typedef {{ weights: TfjsWeightSpec[], files: Shard[] }} Group Weights, and the files with their bytes. */
/**
 * @typedef {{
 *   url: string, signal?: AbortSignal | undefined, onProgress?: ((fraction: number) => void) | undefined,
 * }} Source The URL of the model, and options of the load.
 */

/**
 * A stream with one buffer for each weight: otherwise, TensorFlow.js copies the rest of a buffer again for each weight.
 *
 * @param {Group[]} groups
 * @param {Source} source
 * @returns {ReadableStream<ArrayBuffer>}
 */
export function weightStream(groups, source) {
  const stop = new AbortController();
  const weights = weightsOf(groups, source, stop);
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await weights.next();
      if (done) controller.close();
      else controller.enqueue(value.buffer);
    },
    async cancel(reason) {
      stop.abort(reason);
      await weights.return().catch(() => {}); // a pending read ends with the reason
    },
  }, { highWaterMark: 0 });
}

/**
 * All weights in one buffer. TensorFlow.js 4.22 takes a list of buffers too, but reads it wrongly if the last one is
 * the largest.
 *
 * @param {Group[]} groups
 * @param {Source} source
 */
export async function inMemory(groups, source) {
  const lengths = groups.flatMap(({ weights }) => weights.map(byteLengthOf));
  const stop = new AbortController();
  if (lengths.includes(undefined)) {
    const pieces = [];
    for await (const piece of weightsOf(groups, source, stop)) pieces.push(piece);
    return joined(pieces).buffer;
  }
  const all = allocate(sum(lengths), source.url);
  let at = 0;
  const place = (/** @type {number} */ length) => all.subarray(at, (at += length));
  for await (const _ of weightsOf(groups, source, stop, place));
  return all.buffer;
}

/**
 * Yields the bytes of each weight that has any. Whether a group of files has the bytes of its weights and no more is
 * checked before the last one is yielded: the reader may not ask for more.
 *
 * @param {Group[]} groups
 * @param {Source} source
 * @param {AbortController} stop
 * @param {(length: number) => Bytes} [place] Where to read a weight to.
 * @returns {AsyncGenerator<Bytes, void, void>}
 */
async function* weightsOf(groups, { url, signal, onProgress }, stop, place = (length) => allocate(length, url)) {
  const abort = () => stop.abort(signal?.reason);
  if (signal?.aborted) abort();
  signal?.addEventListener("abort", abort);
  const total = sum(groups.flatMap(({ weights }) => weights.map(byteLengthOf)));
  let loaded = 0;
  const progress = (/** @type {number} */ bytes) => {
    loaded += bytes;
    onProgress?.(loaded < total ? loaded / total : 1);
  };
  const queue = new ShardQueue(groups.flatMap(({ files }) => files), stop.signal);
  try {
    /** @type {Bytes | undefined} */
    let last;
    for (const { weights, files } of groups) {
      const reader = new GroupReader(url, queue, files, progress);
      for (const weight of weights) {
        const bytes = await readWeight(reader, weight, place);
        if (bytes.length === 0) continue;
        if (last) yield last;
        last = bytes;
      }
      await reader.checkEnd();
    }
    queue.close();
    if (last) yield last;
  } finally {
    signal?.removeEventListener("abort", abort);
    queue.close();
  }
}

/**
 * @param {GroupReader} reader
 * @param {TfjsWeightSpec} weight
 * @param {(length: number) => Bytes} place
 */
async function readWeight(reader, weight, place) {
  const length = byteLengthOf(weight);
  if (length !== undefined) return reader.fill(place(length));
  // Each string has its length in front of it.
  const pieces = [];
  for (let left = valuesIn(weight.shape); left > 0; left--) {
    const prefix = await reader.fill(new Uint8Array(4));
    pieces.push(prefix, await reader.fill(place(new DataView(prefix.buffer).getUint32(0, true))));
  }
  return joined(pieces);
}

/** Reads the files of a group of weights as if they were one. */
class GroupReader {
  #url;
  #queue;
  #files;
  #progress;
  /** @type {number[]} The bytes that were read of each file. */
  #lengths = [];
  /** @type {AsyncGenerator<Bytes, void, void> | undefined} */
  #pieces;
  #piece = new Uint8Array(0);

  /**
   * @param {string} url
   * @param {ShardQueue} queue
   * @param {Shard[]} files
   * @param {(bytes: number) => void} progress
   */
  constructor(url, queue, files, progress) {
    this.#url = url;
    this.#queue = queue;
    this.#files = files;
    this.#progress = progress;
  }

  /** @param {Bytes} target */
  async fill(target) {
    for (let at = 0; at < target.length;) {
      if (this.#piece.length === 0 && !(await this.#readPiece())) {
        throw this.#mismatch(`end ${target.length - at} bytes before the end of a weight`);
      }
      const part = this.#piece.subarray(0, target.length - at);
      target.set(part, at);
      at += part.length;
      this.#piece = this.#piece.subarray(part.length);
    }
    return target;
  }

  async checkEnd() {
    while (this.#piece.length === 0 && (await this.#readPiece()));
    if (this.#piece.length > 0) throw this.#mismatch("have more bytes than their weights");
  }

  async #readPiece() {
    for (;;) {
      if (!this.#pieces && this.#lengths.length === this.#files.length) return false;
      if (!this.#pieces) this.#lengths.push(0);
      const next = await (this.#pieces ??= this.#queue.next()).next();
      if (!next.done) {
        this.#piece = next.value;
        this.#lengths[this.#lengths.length - 1] += next.value.length;
        this.#progress(next.value.length);
        return true;
      }
      this.#pieces = undefined;
    }
  }

  /** @param {string} what */
  #mismatch(what) {
    const files = this.#lengths.map((length, at) => `${this.#files[at]?.url} (${length} bytes)`);
    const message = `The files of ${this.#url} ${what}: ${files.join(", ") || "there are none"}. ` +
      "Check that they belong to this model and are complete.";
    return fail({ code: "FORMAT", message, url: this.#files[this.#lengths.length - 1]?.url ?? this.#url });
  }
}

/**
 * @param {number} length
 * @param {string} url
 */
export function allocate(length, url) {
  try {
    return new Uint8Array(length);
  } catch (cause) {
    const message = `${length} bytes of memory for weights of ${url} could not be allocated. ` +
      "Release what is no longer needed, or use a smaller model.";
    throw fail({ code: "LIMIT", message, url, cause });
  }
}

/** @param {(number | undefined)[]} lengths */
const sum = (lengths) => lengths.reduce((/** @type {number} */ total, length) => total + (length ?? 0), 0);
