// @ts-check
// What happens when the app closes a loader or a file.

/** The method by which the adapters of runtimes learn of it: it takes a listener, which is called once. */
export const WHEN_CLOSED = Symbol("whenClosed");

/** The listeners of one loader or file. */
export class CloseListeners {
  /** @type {(() => void)[]} */
  #listeners = [];

  /** @param {() => void} listener */
  add(listener) {
    this.#listeners.push(listener);
  }

  call() {
    for (const listener of this.#listeners.splice(0)) listener();
  }
}
