// @ts-check
// A range that is read ahead, and its bytes that were not handed over yet.
import { ByteRanges } from "../../file/byte_ranges.js";

/** The length of the buffers that bytes wait in. */
export const BUFFER_BYTES = 1024 * 1024;

/** Bytes of a range in one buffer. */
export class Chunk {
  /** The bytes that were handed over. */
  handedOver = new ByteRanges();

  /**
   * @param {number} start Its position in the file.
   * @param {Uint8Array<ArrayBuffer>} buffer
   * @param {number} [length] How much of the buffer has arrived.
   */
  constructor(start, buffer, length = 0) {
    this.start = start;
    this.buffer = buffer;
    this.length = length;
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
  /** How many reads take its bytes now. */
  readers = 0;
  /** @type {unknown} Why the read has failed. */
  error;
  /** @type {Chunk[]} In their order in the file. Those that were handed over are missing. */
  #chunks = [];
  #arrivedTo;
  #waiters = 0;
  #hasEnded = false;
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
   * Whether these bytes of the range are kept or will arrive, the first of them soon.
   *
   * @param {number} start
   * @param {number} end
   */
  hasAll(start, end) {
    if (start - this.#arrivedTo > BUFFER_BYTES) return false;
    for (let at = start; at < end;) {
      const chunk = this.#chunkWith(at);
      if (!chunk) return !this.#hasEnded && at >= this.#arrivedTo;
      at = chunk.end;
    }
    return true;
  }

  /** Whether a read waits for bytes that have not arrived. */
  get isAwaited() {
    return this.#waiters > 0;
  }

  get byteLengthKept() {
    return this.#chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  }

  get isHandedOver() {
    return this.#arrivedTo >= this.end && this.#chunks.length === 0;
  }

  /**
   * Takes the next bytes, up to the end of the range, with their buffer or as a copy. Returns their number.
   *
   * @param {Uint8Array<ArrayBuffer>} given
   * @param {() => Uint8Array<ArrayBuffer> | undefined} unused A buffer that is not used any more.
   */
  append(given, unused) {
    const piece = given.subarray(0, this.end - this.#arrivedTo);
    const { length } = piece;
    const last = this.#chunks[this.#chunks.length - 1];
    const isFull = !last || last.end !== this.#arrivedTo || last.length === last.buffer.length;
    const whole = isFull && length >= BUFFER_BYTES ? withItsBuffer(piece) : undefined;
    if (whole) {
      this.#chunks.push(new Chunk(this.#arrivedTo, whole, length));
      this.#arrivedTo += length;
    } else {
      this.#copy(piece, unused);
    }
    this.#notify();
    return length;
  }

  /**
   * @param {Uint8Array<ArrayBuffer>} piece
   * @param {() => Uint8Array<ArrayBuffer> | undefined} unused
   */
  #copy(piece, unused) {
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
  }

  /** All bytes have arrived. */
  finish() {
    this.#hasEnded = true;
    this.#notify();
  }

  /**
   * The read has failed: bytes that have not arrived will not.
   *
   * @param {unknown} error
   */
  fail(error) {
    this.error = error;
    this.finish();
  }

  /** Forgets the bytes, and expects no others. */
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
        if (this.#hasEnded || at < this.#arrivedTo) return undefined;
        onWait();
        await new Promise((/** @type {(value?: undefined) => void} */ resolve) => this.#listeners.add(resolve));
      }
    } finally {
      signal?.removeEventListener("abort", notify);
      this.#waiters--;
    }
  }

  /** Removes the chunks that are complete and were handed over, and returns them. */
  removeHandedOver() {
    const isDone = (/** @type {Chunk} */ { length, buffer, handedOver }) =>
      length === buffer.length && handedOver.byteLength === length;
    const done = this.#chunks.filter(isDone);
    this.#chunks = this.#chunks.filter((chunk) => !isDone(chunk));
    return done;
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

/**
 * The same bytes with the memory of their buffer, which is then detached: what they came from gets another one.
 * `undefined` if they are only a part of a buffer, or the browser cannot (Chrome before 98, Firefox before 94).
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
function withItsBuffer({ buffer, length }) {
  if (length !== buffer.byteLength || typeof structuredClone !== "function") return undefined;
  return new Uint8Array(structuredClone(buffer, { transfer: [buffer] }));
}

/**
 * Frees the memory of a chunk now, where the browser can, and not at the next garbage collection.
 *
 * @param {Chunk} chunk
 */
export function free({ buffer: { buffer } }) {
  if ("transfer" in buffer) /** @type {any} */ (buffer).transfer(0);
}
