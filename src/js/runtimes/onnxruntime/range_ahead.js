// @ts-check
// A range that is read ahead, and its bytes that were not handed over yet.
import { ByteRanges } from "../../file/byte_ranges.js";

/** The length of the buffers that bytes wait in. */
export const BUFFER_BYTES = 1024 * 1024;

/** Bytes of a range in one buffer. */
export class Chunk {
  length = 0;
  /** The bytes that were handed over. */
  handedOver = new ByteRanges();
  /** How many reads use its bytes now. */
  readers = 0;

  /**
   * @param {number} start Its position in the file.
   * @param {Uint8Array<ArrayBuffer>} buffer
   */
  constructor(start, buffer) {
    this.start = start;
    this.buffer = buffer;
  }

  get end() {
    return this.start + this.length;
  }

  /**
   * Its bytes from the position `at` of the file on, up to the position `end`.
   *
   * @param {number} at
   * @param {number} end
   */
  from(at, end) {
    return this.buffer.subarray(at - this.start, Math.min(this.length, end - this.start));
  }
}

export class RangeAhead {
  /** @type {Chunk[]} In their order in the file. Some may be missing in between: those that were handed over. */
  #chunks = [];
  #arrivedTo;
  #waiters = 0;
  #hasEnded = false;
  /** @type {unknown} */
  #error;
  /** @type {Set<() => void>} Called when something has arrived, or the read has ended. */
  #listeners = new Set();

  /**
   * @param {number} start
   * @param {number} end
   */
  constructor(start, end) {
    this.start = start;
    this.end = end;
    this.#arrivedTo = start;
  }

  /**
   * Whether the byte at this position is kept or will arrive.
   *
   * @param {number} at
   */
  has(at) {
    const isExpected = !this.#hasEnded && at >= this.#arrivedTo && at < this.end;
    return isExpected || this.#chunkWith(at) !== undefined;
  }

  /** Whether somebody waits for bytes that have not arrived. */
  get isAwaited() {
    return this.#waiters > 0;
  }

  /** The first byte that has not arrived. */
  get arrivedTo() {
    return this.#arrivedTo;
  }

  /**
   * The first byte from this position on that is kept or will arrive. Infinite if there is none.
   *
   * @param {number} at
   */
  firstFrom(at) {
    const starts = this.#chunks.filter((chunk) => chunk.end > at).map(({ start }) => Math.max(start, at));
    const isExpected = !this.#hasEnded && this.#arrivedTo < this.end && this.end > at;
    return Math.min(...starts, isExpected ? Math.max(this.#arrivedTo, at) : Infinity);
  }

  /**
   * Leaves the bytes from this position on, which have not arrived, to others.
   *
   * @param {number} at
   */
  cutAt(at) {
    this.end = Math.max(at, this.#arrivedTo);
  }

  get byteLengthKept() {
    return this.#chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  }

  get isHandedOver() {
    return this.#arrivedTo >= this.end && this.#chunks.length === 0;
  }

  /**
   * Copies the next bytes, up to the end of the range. Returns how many these are.
   *
   * @param {Uint8Array<ArrayBuffer>} given
   * @param {() => Uint8Array<ArrayBuffer> | undefined} unused A buffer that is not used any more.
   */
  append(given, unused) {
    const piece = given.subarray(0, this.end - this.#arrivedTo);
    for (let taken = 0; taken < piece.length;) {
      let chunk = this.#chunks[this.#chunks.length - 1];
      if (!chunk || chunk.end !== this.#arrivedTo || chunk.length === chunk.buffer.length) {
        const length = Math.min(BUFFER_BYTES, this.end - this.#arrivedTo);
        const buffer = length === BUFFER_BYTES ? unused() : undefined;
        chunk = new Chunk(this.#arrivedTo, buffer ?? new Uint8Array(length));
        this.#chunks.push(chunk);
      }
      const part = piece.subarray(taken, taken + chunk.buffer.length - chunk.length);
      chunk.buffer.set(part, chunk.length);
      chunk.length += part.length;
      this.#arrivedTo += part.length;
      taken += part.length;
    }
    this.#notify();
    return piece.length;
  }

  /** All bytes have arrived. */
  finish() {
    this.#hasEnded = true;
    this.#notify();
  }

  /**
   * The read has failed. Those who wait for its bytes get the error.
   *
   * @param {unknown} error
   */
  fail(error) {
    this.#error = error;
    this.finish();
  }

  /** Forgets its bytes. Those who wait for them find none. */
  abandon() {
    this.#chunks = [];
    this.finish();
  }

  /**
   * Waits for the chunk with the byte at this position. Resolves to `undefined` if it will not arrive.
   *
   * @param {number} at
   * @param {() => void} onWait Called while the byte is awaited.
   * @param {AbortSignal} [signal]
   */
  async chunkAt(at, onWait, signal) {
    this.#waiters++;
    const notify = () => this.#notify();
    signal?.addEventListener("abort", notify);
    try {
      for (;;) {
        signal?.throwIfAborted();
        const chunk = this.#chunkWith(at);
        if (chunk) return chunk;
        if (this.#error !== undefined) throw this.#error;
        if (this.#hasEnded || at < this.#arrivedTo || at >= this.end) return undefined;
        onWait();
        await new Promise((/** @type {(value?: undefined) => void} */ resolve) => this.#listeners.add(resolve));
      }
    } finally {
      signal?.removeEventListener("abort", notify);
      this.#waiters--;
    }
  }

  /**
   * Removes a chunk if nothing of it is needed any more. Returns whether it was removed.
   *
   * @param {Chunk} chunk
   */
  remove(chunk) {
    const isComplete = chunk.length === chunk.buffer.length || chunk.end >= this.end;
    if (!isComplete || chunk.readers > 0 || chunk.handedOver.byteLength < chunk.length) return false;
    const place = this.#chunks.indexOf(chunk);
    if (place >= 0) this.#chunks.splice(place, 1);
    return place >= 0;
  }

  /** @param {number} at */
  #chunkWith(at) {
    return this.#chunks.find((chunk) => chunk.start <= at && at < chunk.end);
  }

  #notify() {
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener();
  }
}
