// @ts-check
// Reads ranges of a file ahead of a runtime, which asks for them one after another.
import { BUFFER_BYTES, RangeAhead, free } from "./range_ahead.js";

/** @import { Pieces } from "../../file/stream.js" */
/** @import { ReadPieces } from "../../file/blob.js" */
/** @import { Range } from "./ranges.js" */

/** The maximum number of ranges that are read at the same time. One alone would wait a round trip for each range. */
const MAX_READS = 3;

/** The maximum number of buffers that are kept for the next bytes. */
const MAX_FREE = 4;

/** A part of a range is read with the range up to this length; otherwise it is read at once. */
const TOGETHER_BYTES = 1024 * 1024;

/**
 * Reads ranges in their expected order, and keeps their bytes until they are asked for. What is asked for earlier than
 * expected is read at once.
 *
 * The bytes of one range that a read asks for come either from the read-ahead or from one other read, and are never
 * combined: a tensor that is read in two parts would not be compared with its digest.
 */
export class ReadAhead {
  #readAhead;
  #readNow;
  #maxBytes;
  /** @type {RangeAhead[]} The ranges that are not begun yet, in the expected order. */
  #waiting;
  /** @type {Set<RangeAhead>} The ranges whose bytes are on their way or kept. */
  #begun = new Set();
  #reads = 0;
  #keptBytes = 0;
  /** Whether a read ahead has failed. No other range is begun until the runtime has received bytes. */
  #hasFailed = false;
  /** @type {Uint8Array<ArrayBuffer>[]} Buffers whose bytes were handed over. */
  #free = [];
  /** @type {Set<() => void>} Reads that are paused. */
  #paused = new Set();
  #controller = new AbortController();

  /**
   * @param {{ ahead: ReadPieces, now: ReadPieces }} read What reads ranges ahead, and what was not expected.
   * @param {readonly Range[]} ranges In the order in which they are expected. They must not overlap.
   * @param {number} maxBytes How many bytes are kept, apart from a piece of each read.
   */
  constructor({ ahead, now }, ranges, maxBytes) {
    this.#readAhead = ahead;
    this.#readNow = now;
    this.#maxBytes = maxBytes;
    this.#waiting = ranges.map(([start, end]) => new RangeAhead(start, end));
    this.#advance();
  }

  /**
   * Yields the bytes `[start, end)`. Each piece is valid until the next one is requested.
   *
   * @param {number} start
   * @param {number} end
   * @param {AbortSignal} [signal]
   * @returns {Pieces}
   */
  async *read(start, end, signal) {
    for (let at = start; at < end;) {
      const range = this.#rangeAt(at, end);
      const stop = range ? Math.min(end, range.end) : this.#endOfGap(at, end);
      yield* range?.hasAll(at, stop) ? this.#handOver(range, at, stop, signal) : this.#readNow(at, stop, signal);
      at = stop;
      this.#succeed();
    }
  }

  /** Reads nothing ahead any more, and frees the memory of what nothing is reading. */
  clear() {
    this.#waiting = [];
    for (const range of [...this.#begun]) if (range.readers === 0) this.#drop(range);
    this.#resume();
  }

  /** Ends all reads, and frees the memory. For a file that is closed, or of which all reads are aborted. */
  stop() {
    this.#waiting = [];
    this.#free = [];
    for (const range of [...this.#begun]) this.#drop(range);
    this.#controller.abort();
    this.#resume();
  }

  /** @param {RangeAhead} range */
  #drop(range) {
    this.#begun.delete(range);
    this.#keptBytes -= range.byteLengthKept;
    range.abandon();
  }

  /**
   * Yields bytes of a range that are kept or will arrive. If it fails before the first of them, they are read at once:
   * the error may concern other bytes of the range.
   *
   * @param {RangeAhead} range
   * @param {number} start
   * @param {number} end
   * @param {AbortSignal} [signal]
   * @returns {Pieces}
   */
  async *#handOver(range, start, end, signal) {
    range.readers++;
    try {
      for (let at = start; at < end;) {
        const chunk = await range.chunkAt(at, () => this.#resume(), signal);
        if (!chunk && at > start && range.error !== undefined) throw range.error;
        if (!chunk) return yield* this.#readNow(at, end, signal); // once the file is closed, this reports it
        const piece = chunk.from(at, end);
        const { length } = piece;
        yield piece;
        chunk.handedOver.add(at, (at += length));
        this.#release(range);
      }
    } finally {
      range.readers--;
      if (range.readers === 0) this.#release(range); // another one may be using bytes that this one has received
    }
  }

  /**
   * The range with the byte at `at`, if it is begun, and the byte is kept or will arrive soon. A short range is begun
   * if only a part of it is read.
   *
   * @param {number} at
   * @param {number} end
   */
  #rangeAt(at, end) {
    for (const range of this.#begun) if (range.start <= at && at < range.end) return range;
    const range = this.#waiting.find((range) => range.start <= at && at < range.end);
    const isPart = range && (range.start < at || range.end > end);
    if (!isPart || range.end - range.start > TOGETHER_BYTES || this.#reads >= 2 * MAX_READS) return undefined;
    this.#waiting = this.#waiting.filter((other) => other !== range);
    this.#begin(range);
    return range;
  }

  /**
   * The end of the bytes from `at` on that are read at once. The ranges among them are not read ahead any more.
   *
   * @param {number} at
   * @param {number} end
   */
  #endOfGap(at, end) {
    const stop = Math.min(end, ...[...this.#begun].map(({ start }) => start).filter((start) => start > at));
    this.#waiting = this.#waiting.filter((range) => range.end <= at || range.start >= stop);
    return stop;
  }

  #succeed() {
    this.#hasFailed = false;
    this.#advance();
  }

  #advance() {
    while (!this.#hasFailed && this.#reads < MAX_READS && this.#keptBytes < this.#maxBytes) {
      const next = this.#waiting.shift();
      if (!next) return;
      this.#begin(next);
    }
  }

  /** @param {RangeAhead} range */
  #begin(range) {
    this.#begun.add(range);
    this.#reads++;
    void this.#fetch(range).then(() => {
      this.#reads--;
      this.#advance();
    });
  }

  /**
   * Reads a range. Pauses while too many bytes are kept, unless a read waits for the next bytes of this range.
   *
   * @param {RangeAhead} range
   */
  async #fetch(range) {
    const { signal } = this.#controller;
    try {
      for await (const piece of this.#readAhead(range.start, range.end, signal)) {
        if (!this.#begun.has(range)) return;
        this.#keptBytes += range.append(piece, () => this.#free.pop());
        while (this.#keptBytes >= this.#maxBytes && !range.isAwaited && this.#begun.has(range)) {
          await new Promise((/** @type {(value?: undefined) => void} */ resolve) => this.#paused.add(resolve));
        }
      }
      range.finish();
      if (range.isHandedOver) this.#begun.delete(range);
    } catch (error) {
      if (!this.#begun.has(range)) return;
      this.#hasFailed = true;
      this.#begun.delete(range);
      this.#keptBytes -= range.byteLengthKept;
      range.fail(error);
    }
  }

  /**
   * Frees the chunks that were handed over, unless another read of the range needs them.
   *
   * @param {RangeAhead} range
   */
  #release(range) {
    if (!this.#begun.has(range) || range.readers > 1) return;
    for (const chunk of range.removeHandedOver()) {
      this.#keptBytes -= chunk.length;
      if (chunk.buffer.length === BUFFER_BYTES && this.#free.length < MAX_FREE) this.#free.push(chunk.buffer);
      else free(chunk);
    }
    if (range.isHandedOver) this.#begun.delete(range);
    this.#resume();
  }

  #resume() {
    const paused = [...this.#paused];
    this.#paused.clear();
    for (const resume of paused) resume();
  }
}
