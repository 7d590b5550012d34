// @ts-check
// A call for which several callers wait.
import { untilAborted } from "./abort.js";

/**
 * Runs once for all callers that join it, and stops when each of them has aborted.
 *
 * @template T
 */
export class SharedCall {
  #stop = new AbortController();
  #waiting = 0;
  #hasEnded = false;
  #outcome;

  /**
   * @param {(stop: AbortSignal) => Promise<T>} start
   * @param {() => void} failed Is called once when the call has failed or was stopped, before its callers know.
   */
  constructor(start, failed) {
    this.#outcome = start(this.#stop.signal);
    const fail = () => {
      if (!this.#hasEnded) failed();
      this.#hasEnded = true;
    };
    this.#outcome.then(() => (this.#hasEnded = true), fail);
    this.#stop.signal.addEventListener("abort", fail);
  }

  /**
   * @param {AbortSignal | undefined} signal
   * @returns {Promise<T>}
   */
  async join(signal) {
    this.#waiting++;
    try {
      return await untilAborted(signal, () => this.#outcome);
    } finally {
      if (--this.#waiting === 0 && signal?.aborted && !this.#hasEnded) this.#stop.abort(signal.reason);
    }
  }
}
