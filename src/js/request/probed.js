// @ts-check
// Files that stay open for a while after a request for their first byte. Runtimes ask for the length of a file in this
// way before they load it. Opening a file requests its first 64 KiB, which the load then need not request again.

import { released } from "../module/location.js";

/** @import { Opened } from "./answer.js" */

/** How long a file stays open for the request that follows. Runtimes make it at once. */
const KEPT_MS = 30_000;

/** Files that were probed, each until it is loaded. */
export class ProbedFiles {
  /** @type {Map<string, { opened: Opened, timer: ReturnType<typeof setTimeout> }>} */
  #files = new Map();

  /**
   * @param {string} url
   * @param {Headers} headers
   * @param {Opened} opened
   */
  keep(url, headers, opened) {
    this.take(url, headers)?.file.close();
    const timer = released(setTimeout(() => this.take(url, headers)?.file.close(), KEPT_MS));
    this.#files.set(keyOf(url, headers), { opened, timer });
  }

  /**
   * Returns the file that was probed with the same headers, which the caller must close.
   *
   * @param {string} url
   * @param {Headers} headers
   */
  take(url, headers) {
    const key = keyOf(url, headers);
    const kept = this.#files.get(key);
    if (!kept) return undefined;
    clearTimeout(kept.timer);
    this.#files.delete(key);
    return kept.opened;
  }

  /** Closes all files. */
  close() {
    for (const { opened, timer } of this.#files.values()) {
      clearTimeout(timer);
      opened.file.close();
    }
    this.#files.clear();
  }
}

/**
 * @param {string} url
 * @param {Headers} headers
 */
const keyOf = (url, headers) => JSON.stringify([url, ...headers]);
