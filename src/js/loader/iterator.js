// @ts-check
// The iterator that `tensors()` returns.

/** @import * as Api from "../weightstream.js" */

/**
 * Stops the load of an iterator that was garbage-collected.
 *
 * @type {FinalizationRegistry<() => void> | undefined}
 */
const abandoned = globalThis.FinalizationRegistry && new FinalizationRegistry((stop) => stop());

const AsyncIteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}.prototype));

/**
 * Like an async generator, except that `return` takes effect even while a call of `next` is pending.
 *
 * @implements {AsyncIterator<Api.Tensor>}
 */
export class TensorIterator {
  #next;
  #stop;
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();
  #isDone = false;

  /**
   * @param {() => Promise<Api.Tensor | undefined>} next
   * @param {() => void} stop
   */
  constructor(next, stop) {
    this.#next = next;
    this.#stop = stop;
    abandoned?.register(this, stop, this);
  }

  next() {
    /** @returns {Promise<IteratorResult<Api.Tensor>>} */
    const step = async () => {
      if (this.#isDone) return { value: undefined, done: true };
      try {
        const value = await this.#next();
        if (value && !this.#isDone) return { value, done: false };
      } catch (error) {
        if (this.#isDone) return { value: undefined, done: true }; // `return` has stopped the load
        this.#end();
        throw error;
      }
      this.#end();
      return { value: undefined, done: true };
    };
    const result = this.#last.then(step);
    this.#last = result.catch(() => {});
    return result;
  }

  /**
   * @param {any} [value]
   * @returns {Promise<IteratorReturnResult<any>>}
   */
  async return(value) {
    this.#end();
    return { value: await value, done: true };
  }

  /**
   * @param {unknown} [error]
   * @returns {Promise<never>}
   */
  async throw(error) {
    this.#end();
    throw error;
  }

  /** @returns {AsyncIterableIterator<Api.Tensor>} */
  [Symbol.asyncIterator]() {
    return this;
  }

  #end() {
    if (this.#isDone) return;
    this.#isDone = true;
    abandoned?.unregister(this);
    this.#stop();
  }
}
Object.setPrototypeOf(TensorIterator.prototype, AsyncIteratorPrototype);
Object.defineProperty(TensorIterator.prototype, Symbol.toStringTag, { value: "TensorIterator", configurable: true });
