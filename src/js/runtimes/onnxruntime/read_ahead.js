// @ts-check
// Reads ranges of a file ahead of a runtime, which asks for them one after another.
import { BUFFER_BYTES, RangeAhead } from "./range_ahead.js";

/** @import { Pieces } from "../../file/stream.js" */
/** @import { ReadPieces } from "../../file/blob.js" */
/** @import { Chunk } from "./range_ahead.js" */
/** @import { Range } from "./ranges.js" */

/** The maximum number of ranges that are read at the same time. One alone would wait a round trip for each range. */
const MAX_READS = 3;

/** The maximum number of buffers that are kept for the next bytes. */
const MAX_FREE = 4;

/** A range up to this length is read as a whole when a part of it is asked for. */
const TOGETHER_BYTES = 1024 * 1024;

/**
 * Reads ranges in their expected order, and keeps their bytes until they are asked for. What is asked for earlier than
 * expected is read at once. Bytes are read twice only if they are asked for twice, or if a read has failed.
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
  /** Whether a read has failed that nobody waited for. None is begun until one has succeeded that was asked for. */
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
      if (!range) {
        const stop = this.#endOfGap(at, end);
        yield* this.#readNow(at, stop, signal);
        at = stop;
        this.#succeed();
        continue;
      }
      const chunk = await this.#chunkAt(range, at, start, end, signal);
      if (!chunk) continue;
      const piece = chunk.from(at, end);
      chunk.readers++;
      try {
        yield piece;
      } finally {
        chunk.readers--;
        chunk.handedOver.add(at, at + piece.length);
        this.#release(range, chunk);
      }
      at += piece.length;
      this.#succeed();
    }
  }

  /** Ends all reads, and frees the memory. What is asked for afterwards is read at once. */
  stop() {
    this.#waiting = [];
    this.#free = [];
    this.#keptBytes = 0;
    const begun = [...this.#begun];
    this.#begun.clear();
    for (const range of begun) range.abandon();
    this.#controller.abort();
    this.#resume();
  }

  /**
   * The chunk with the byte at `at`; nothing if it must be read at once. The error of a range that has more bytes than
   * those from `start` to `end` may concern others.
   *
   * @param {RangeAhead} range
   * @param {number} at
   * @param {number} start
   * @param {number} end
   * @param {AbortSignal} [signal]
   */
  async #chunkAt(range, at, start, end, signal) {
    try {
      return await range.chunkAt(at, () => this.#resume(), signal);
    } catch (error) {
      signal?.throwIfAborted();
      if (range.start < start || range.end > end) return undefined;
      throw error;
    }
  }

  /**
   * The range whose byte at `at` is kept or will arrive soon. A short range that is not begun yet is begun if only a
   * part of it is read.
   *
   * @param {number} at
   * @param {number} end
   */
  #rangeAt(at, end) {
    for (const range of this.#begun) {
      if (!range.has(at)) continue;
      if (at - range.arrivedTo <= TOGETHER_BYTES) return range;
      this.#waiting.unshift(new RangeAhead(at, range.end));
      range.cutAt(at);
    }
    const range = this.#waiting.find((range) => range.start <= at && at < range.end);
    const isPart = range && (range.start < at || range.end > end);
    if (!isPart || range.end - range.start > TOGETHER_BYTES || this.#reads >= 2 * MAX_READS) return undefined;
    this.#waiting = this.#waiting.filter((other) => other !== range);
    this.#begin(range);
    return range;
  }

  /**
   * The end of the bytes from `at` on that are read at once. They are not read ahead any more.
   *
   * @param {number} at
   * @param {number} end
   */
  #endOfGap(at, end) {
    const stop = Math.min(end, ...[...this.#begun].map((range) => range.firstFrom(at)));
    this.#waiting = this.#waiting.flatMap((range) => {
      if (range.end <= at || range.start >= stop) return [range];
      const rest = [[range.start, at], [stop, range.end]];
      return rest.filter(([from = 0, to = 0]) => from < to).map(([from = 0, to = 0]) => new RangeAhead(from, to));
    });
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
   * Reads a range. Pauses while too many bytes are kept, unless somebody waits for its next bytes.
   *
   * @param {RangeAhead} range
   */
  async #fetch(range) {
    const { signal } = this.#controller;
    try {
      for await (const piece of this.#readAhead(range.start, range.end, signal)) {
        if (signal.aborted) return;
        this.#keptBytes += range.append(piece, () => this.#free.pop());
        while (this.#keptBytes >= this.#maxBytes && !range.isAwaited && !signal.aborted) {
          await new Promise((/** @type {(value?: undefined) => void} */ resolve) => this.#paused.add(resolve));
        }
        if (range.arrivedTo >= range.end) break; // somebody else reads the rest
      }
      range.finish();
      if (range.isHandedOver) this.#begun.delete(range);
    } catch (error) {
      if (signal.aborted) return;
      this.#hasFailed ||= !range.isAwaited;
      this.#begun.delete(range);
      this.#keptBytes -= range.byteLengthKept;
      range.fail(error);
    }
  }

  /**
   * Frees a chunk once all of it was handed over.
   *
   * @param {RangeAhead} range
   * @param {Chunk} chunk
   */
  #release(range, chunk) {
    if (!this.#begun.has(range) || !range.remove(chunk)) return;
    this.#keptBytes -= chunk.length;
    if (chunk.buffer.length === BUFFER_BYTES && this.#free.length < MAX_FREE) this.#free.push(chunk.buffer);
    if (range.isHandedOver) this.#begun.delete(range);
    this.#resume();
  }

  #resume() {
    const paused = [...this.#paused];
    this.#paused.clear();
    for (const resume of paused) resume();
  }
}
