// @ts-check
// A line with a limited rate that may break once, so that two ways to load a file meet the same conditions. It limits
// and breaks real responses of the server in the page, which also works where the page is hosted as static files.

// Timers are late by a few milliseconds. A line that fell behind may catch up by this much, so that its rate is exact.
const CATCH_UP_MS = 30;
// Shorter waits would be rounded up by the browser.
const LEAST_WAIT_MS = 4;

// The body of an ordinary response is a byte stream, if the browser has them.
const HAS_BYTE_STREAMS = "ReadableByteStreamController" in globalThis;

/**
 * `bytesPerSecond` is the rate of all responses together. After `breaksAfter` bytes, every open response fails, once;
 * without it, none fails.
 *
 * @typedef {{ bytesPerSecond: number, breaksAfter?: number | undefined }} Conditions
 */

export class Line {
  /** The bytes that all responses have delivered. */
  received = 0;
  /** Whether it has broken. */
  isBroken = false;
  #bytesPerSecond;
  #breaksAfter;
  #onBreak;
  #freeAt = 0;

  /**
   * @param {Conditions} conditions
   * @param {() => void} onBreak
   */
  constructor({ bytesPerSecond, breaksAfter = Infinity }, onBreak) {
    this.#bytesPerSecond = bytesPerSecond;
    this.#breaksAfter = breaksAfter;
    this.#onBreak = onBreak;
  }

  /**
   * Requests a URL over this line, never from the browser's HTTP cache.
   *
   * @type {typeof globalThis.fetch}
   */
  fetch = async (input, init) => {
    const response = await fetch(input, { ...init, cache: "no-store" });
    if (!response.body) return response;
    const { status, statusText, headers } = response;
    return new Response(this.#carry(response.body.getReader()), { status, statusText, headers });
  };

  /**
   * The body of a response, at the rate of the line.
   *
   * @param {ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>} reader
   */
  #carry(reader) {
    const beganBroken = this.isBroken;
    const source = {
      pull: async (/** @type {ReadableStreamController<Uint8Array<ArrayBuffer>>} */ controller) => {
        const { done, value } = await reader.read();
        if (!done) await this.#waitFor(value.length);
        if (this.isBroken !== beganBroken) return this.#fail(reader);
        if (done) {
          controller.close();
          if ("byobRequest" in controller) controller.byobRequest?.respond(0);
          return undefined;
        }
        const isLast = !this.isBroken && this.received + value.length >= this.#breaksAfter;
        const carried = isLast ? value.subarray(0, this.#breaksAfter - this.received) : value;
        this.received += carried.length;
        if (isLast) this.#break();
        if (carried.length === 0) return this.#fail(reader);
        controller.enqueue(carried);
        return undefined;
      },
      cancel: (/** @type {unknown} */ reason) => reader.cancel(reason),
    };
    return HAS_BYTE_STREAMS
      ? new ReadableStream({ ...source, type: "bytes" })
      : new ReadableStream(source, { highWaterMark: 0 });
  }

  /**
   * Fails a response as the browser does when its connection is lost.
   *
   * @param {ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>} reader
   * @returns {Promise<never>}
   */
  async #fail(reader) {
    reader.cancel().catch(() => {});
    throw new TypeError("network error");
  }

  #break() {
    this.isBroken = true;
    this.#onBreak();
  }

  /** @param {number} bytes */
  async #waitFor(bytes) {
    const now = performance.now();
    this.#freeAt = Math.max(this.#freeAt, now - CATCH_UP_MS) + (bytes / this.#bytesPerSecond) * 1000;
    const wait = this.#freeAt - now;
    if (wait >= LEAST_WAIT_MS) await new Promise((resolve) => setTimeout(resolve, wait));
  }
}
