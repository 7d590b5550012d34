// @ts-check
// What happens when the app closes a loader or a file.

/** The method by which the adapters of runtimes learn of it: it takes a listener, which is called once. */
export const WHEN_CLOSED = Symbol("whenClosed");

/** The listeners of one loader or file. */
export class CloseListeners {
  /** @type {Set<() => void>} */
  #listeners = new Set();
  #isClosed = false;

  /**
   * @param {() => void} listener Called at once if it is closed already.
   * @returns {() => void} Removes the listener.
   */
  add(listener) {
    if (this.#isClosed) listener();
    else this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  call() {
    this.#isClosed = true;
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener();
  }
}
