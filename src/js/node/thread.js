// @ts-check
// Workers in Node.js, Deno and Bun: threads with the interface of Web workers, as far as this package uses it.
import { Worker as Thread } from "node:worker_threads";

/**
 * A thread that runs `node_worker.js`. It does not keep the process running: pending calls do (see `hold`
 * in node.js).
 */
export class ThreadWorker {
  /** @type {((event: { data: any }) => void) | null} */
  onmessage = null;
  /** @type {((event: { message?: string, preventDefault: () => void }) => void) | null} */
  onerror = null;
  /** @type {((event: { data?: undefined, preventDefault: () => void }) => void) | null} */
  onmessageerror = null;
  #thread;

  /** @param {string | URL} url */
  constructor(url) {
    this.#thread = new Thread(new URL(url), { stdin: false });
    this.#thread.on("message", (data) => this.onmessage?.({ data }));
    this.#thread.on("error", (error) => this.onerror?.({ message: messageOf(error), preventDefault }));
    this.#thread.on("messageerror", () => this.onmessageerror?.({ preventDefault }));
    this.#thread.unref();
  }

  /**
   * @param {unknown} message
   * @param {Transferable[]} [transferred]
   */
  postMessage(message, transferred = []) {
    this.#thread.postMessage(message, /** @type {any} */ (transferred));
  }

  terminate() {
    void this.#thread.terminate();
  }

  addEventListener() {} // nothing but the handlers above receives events
}

/** Errors of threads are never reported by the runtime itself. */
function preventDefault() {}

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error));
