// @ts-check
// The requests that answer one call of a `fetch` of the package, and what the caller needs of their responses.
import { LoadError } from "../loader/error.js";

/** What a response says besides its bytes. Its body belongs to the module. */
/** @typedef {Pick<Response, "status" | "statusText" | "headers" | "url" | "redirected" | "type">} Head */

export class Exchange {
  /** @type {Head | undefined} The last response with bytes of the file. */
  head;
  #send;
  #signal;
  #signatureUrl;
  /** @type {Response | undefined} The last response without bytes of the file, such as a 404. */
  #refusal;
  #isOver = false;

  /**
   * @param {typeof globalThis.fetch} send
   * @param {AbortSignal | null | undefined} signal The caller's.
   * @param {string} [signatureUrl] The URL of what is not the file.
   */
  constructor(send, signal, signatureUrl) {
    this.#send = send;
    this.#signal = signal;
    this.#signatureUrl = signatureUrl;
  }

  /**
   * The `fetch` of the module. A refusal belongs to the caller, who gets it as it is. So the module, which aborts what
   * it cannot use, gets only a copy of its head.
   *
   * @type {typeof globalThis.fetch}
   */
  fetch = async (url, init = {}) => {
    if (String(url) === this.#signatureUrl) return this.#send(url, init);
    const { signal } = init;
    const stop = new AbortController();
    const abort = () => stop.abort(signal?.reason);
    signal?.addEventListener("abort", abort);
    const response = await this.#send(url, { ...init, signal: either(stop.signal, this.#signal) });
    this.#discard();
    const { status, statusText, headers } = Object(response);
    if (status === undefined) return response; // a `fetch` of the app returns something else, which the module reports
    if (status === 200 || status === 206) {
      this.head = response;
      return response;
    }
    const copy = status < 200 ? response : new Response(null, { status, statusText, headers });
    signal?.removeEventListener("abort", abort);
    this.#refusal = response;
    if (this.#isOver) this.#discard();
    else if (!AbortSignal.any) {
      this.#signal?.addEventListener("abort", () => stop.abort(this.#signal?.reason), { once: true });
    }
    return copy;
  };

  /**
   * The response of the server that an error reports, if the caller asked for what it refuses.
   *
   * @param {unknown} error
   * @param {boolean} isRange Whether the caller asked for a range.
   */
  refusalOf(error, isRange) {
    const refusal = this.#refusal;
    const isReported = error instanceof LoadError && error.status === refusal?.status;
    if (!isReported || (refusal?.status === 416 && !isRange)) return undefined;
    this.#refusal = undefined;
    return refusal;
  }

  /** Whether the server has last refused a range. */
  get isRangeRefused() {
    return this.#refusal?.status === 416;
  }

  /** Later refusals concern the module only. */
  end() {
    this.#isOver = true;
    this.#discard();
  }

  #discard() {
    this.#refusal?.body?.cancel().catch(() => {}); // it may be locked by a `fetch` of the app
    this.#refusal = undefined;
  }
}

/**
 * A signal that aborts with either of two. It leaves no listener on them.
 *
 * @param {AbortSignal} one
 * @param {AbortSignal | null | undefined} other
 */
const either = (one, other) => (other && AbortSignal.any ? AbortSignal.any([one, other]) : one);
