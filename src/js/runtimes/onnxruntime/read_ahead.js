// @ts-check
// Reads ranges of a file ahead of a runtime, which asks for them one after another.
import { RangeAhead } from "./range_ahead.js";

/** @import { Pieces } from "../../file/stream.js" */
/** @import { ReadPieces } from "../../file/blob.js" */
/** @import { Chunk } from "./range_ahead.js" */
/** @import { Range } from "./ranges.js" */

/** The maximum number of ranges that are read at the same time. One alone would wait a round trip for each range. */
const MAX_READS = 3;

/**
 * Reads ranges in their expected order, and keeps their bytes until they are asked for. What is asked for earlier than
 * expected is read at once. Bytes are read twice only if they are asked for twice, or if a read has failed.
 */
export class ReadAhead {
  #read;
  #maxBytes;
  /** @type {RangeAhead[]} The ranges that are not begun yet, in the expected order. */
  #waiting;
  /** @type {Set<RangeAhead>} The ranges whose bytes are on their way or kept. */
  #begun = new Set();
  #reads = 0;
  #keptBytes = 0;
  /** @type {Uint8Array<ArrayBuffer>[]} Buffers whose bytes were handed over. */
  #free = [];
  /** @type {Set<() => void>} Reads that are paused. */
  #paused = new Set();
  #controller = new AbortController();

  /**
   * @param {ReadPieces} read
   * @param {readonly Range[]} ranges In the order in which they are expected. They must not overlap.
   * @param {number} maxBytes How many bytes are kept, apart from a piece of each read.
   */
  constructor(read, ranges, maxBytes) {
    this.#read = read;
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
        yield* this.#read(at, stop, signal);
        at = stop;
        continue;
      }
      const chunk = await range.chunkAt(at, () => this.#resume());
      signal?.throwIfAborted();
      if (!chunk) continue;
      const piece = chunk.from(at, end);
      chunk.readers++;
      try {
        yield piece;
      } finally {
        chunk.readers--;
        chunk.handedOver += piece.length;
        this.#release(range, chunk);
      }
      at += piece.length;
    }
  }

  /** Ends all reads, and frees the memory. What is asked for afterwards is read at once. */
  stop() {
    this.#waiting = [];
    this.#free = [];
    this.#keptBytes = 0;
    const begun = [...this.#begun];
    this.#begun.clear();
    this.#controller.abort();
    for (const range of begun) range.abandon();
    this.#resume();
  }

  /**
   * The range whose byte at `at` is kept or on its way. A range that is not begun yet is begun, unless it is read as a
   * whole by the read that goes from `at` to `end`: this one needs no copy.
   *
   * @param {number} at
   * @param {number} end
   */
  #rangeAt(at, end) {
    for (const range of this.#begun) if (range.has(at)) return range;
    const range = this.#waiting.find((range) => range.start <= at && at < range.end);
    if (!range || (range.start === at && range.end <= end)) return undefined;
    this.#waiting = this.#waiting.filter((other) => other !== range);
    this.#begin(range);
    return range;
  }

  /**
   * The end of the bytes from `at` on that are read at once. Ranges in between are not read ahead any more.
   *
   * @param {number} at
   * @param {number} end
   */
  #endOfGap(at, end) {
    const others = [...this.#begun, ...this.#waiting.filter((range) => range.end > end)];
    const stop = Math.min(end, ...others.map(({ start }) => start).filter((start) => start > at));
    this.#waiting = this.#waiting.filter((range) => range.start < at || range.end > stop);
    return stop;
  }

  #advance() {
    while (this.#reads < MAX_READS && this.#keptBytes < this.#maxBytes) {
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
      for await (const piece of this.#read(range.start, range.end, signal)) {
        if (signal.aborted) return;
        this.#keptBytes += piece.length;
        range.append(piece, () => this.#free.pop());
        while (this.#keptBytes >= this.#maxBytes && !range.isAwaited && !signal.aborted) {
          await new Promise((/** @type {(value?: undefined) => void} */ resolve) => this.#paused.add(resolve));
        }
      }
      range.finish();
    } catch (error) {
      this.#begun.delete(range);
      this.#keptBytes -= signal.aborted ? 0 : range.byteLengthKept;
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
    this.#free.push(chunk.buffer);
    if (range.isHandedOver) this.#begun.delete(range);
    this.#resume();
    this.#advance();
  }

  #resume() {
    const paused = [...this.#paused];
    this.#paused.clear();
    for (const resume of paused) resume();
  }
}
