// @ts-check
// The weights of one part of the graph, read ahead of the session that needs them. A session waits for the weights that
// have not arrived yet; how long is recorded.

/** Times in milliseconds, as `performance.now()` counts them. @typedef {[from: number, to: number]} Interval */

/** The bytes `[start, end)` of a file. */
export class Arrival {
  /** When a session waited for bytes. @type {Interval[]} */
  waits = [];
  /** When the bytes were read. @type {Interval} */
  reading = [performance.now(), performance.now()];
  /** Why the bytes do not arrive. @type {unknown} */
  failure = undefined;
  /** Settles when all bytes have arrived. @type {Promise<void>} */
  completed;
  #arrived = 0;
  /** @type {(() => void)[]} */
  #wakers = [];
  #bytes;

  /**
   * Starts to read.
   *
   * @param {Blob} file
   * @param {number} start
   * @param {number} end
   */
  constructor(file, start, end) {
    this.file = file;
    this.start = start;
    this.end = end;
    this.#bytes = new Uint8Array(end - start);
    this.completed = this.#read();
    // A session that waits for the bytes reports the failure.
    this.completed.catch(() => {});
  }

  get byteLength() {
    return this.end - this.start;
  }

  get isComplete() {
    return this.#arrived === this.byteLength;
  }

  /**
   * What a session takes as the data of the whole file. It must need only weights of this part.
   *
   * @param {boolean} readsLazily Whether the session reads a Blob when it needs it.
   * @returns {Promise<Blob | Uint8Array>}
   */
  async data(readsLazily) {
    if (readsLazily) return new ArrivingBlob(this, 0, this.file.size);
    const whole = new Uint8Array(this.end);
    whole.set(await this.bytes(this.start, this.end), this.start);
    return whole;
  }

  /**
   * The bytes `[start, end)` of the file, as soon as they have arrived.
   *
   * @param {number} start
   * @param {number} end
   */
  async bytes(start, end) {
    if (start < this.start || end > this.end) throw new RangeError(`the part has no bytes ${start} to ${end}`);
    const from = performance.now();
    const isWaiting = this.#arrived < end - this.start;
    while (this.#arrived < end - this.start && this.failure === undefined) {
      await new Promise((resolve) => this.#wakers.push(() => resolve(undefined)));
    }
    if (isWaiting) this.waits.push([from, performance.now()]);
    if (this.failure !== undefined) throw this.failure;
    return this.#bytes.subarray(start - this.start, end - this.start);
  }

  async #read() {
    const reader = this.file.slice(this.start, this.end).stream().getReader();
    try {
      for (let next = await reader.read(); !next.done; next = await reader.read()) {
        this.#bytes.set(next.value, this.#arrived);
        this.#arrived += next.value.length;
        this.reading[1] = performance.now();
        this.#wake();
      }
    } catch (reason) {
      this.failure = reason;
      this.#wake();
      throw reason;
    }
  }

  #wake() {
    for (const wake of this.#wakers.splice(0)) wake();
  }
}

/** The Blob that a session reads: `slice()` and then `stream()`, for each weight. */
class ArrivingBlob extends Blob {
  /**
   * @param {Arrival} arrival
   * @param {number} start
   * @param {number} end
   */
  constructor(arrival, start, end) {
    super();
    this.arrival = arrival;
    this.start = start;
    this.end = end;
  }

  /** @override */
  get size() {
    return this.end - this.start;
  }

  /**
   * @override
   * @param {number} [start]
   * @param {number} [end]
   */
  slice(start = 0, end = this.size) {
    return new ArrivingBlob(this.arrival, this.start + start, this.start + end);
  }

  /**
   * @override
   * @returns {ReadableStream<Uint8Array<ArrayBuffer>>}
   */
  stream() {
    const { arrival, start, end } = this;
    return new ReadableStream({
      async pull(controller) {
        controller.enqueue(await arrival.bytes(start, end));
        controller.close();
      },
    });
  }
}
