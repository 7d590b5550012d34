// @ts-check
// The sessions of the parts of a graph, which are created one after another. A call passes through those that there
// are, and waits for the next one.
import { fail, invalid } from "../../loader/error.js";

/** @import * as Api from "./onnxruntime.js" */
/** @import { Part, Parts } from "./parts.js" */

/**
 * A call of `run`. `values` are the tensors that later parts need, and the outputs.
 *
 * @typedef {object} Call
 * @property {number} part The next part.
 * @property {Map<string, any>} values
 * @property {object | undefined} options
 * @property {(outputs: Record<string, any>) => void} resolve
 * @property {(error: unknown) => void} reject
 */

/** @implements {Api.StreamedSession<any>} */
export class StreamedSession {
  inputNames;
  outputNames;
  loaded;
  /** @type {readonly Part[]} */
  #parts;
  #create;
  #close;
  /** For each value, the last part that needs it. @type {Map<string, number>} */
  #lastUses;
  /** @type {Api.RuntimeSession<any>[]} */
  #sessions = [];
  /** @type {Call[]} */
  #calls = [];
  /** The call of which a part is computing. @type {Call | undefined} */
  #computing;
  #isWorking = false;
  /** Why there will be no other session. @type {{ error: unknown } | undefined} */
  #end;
  /** Ends what the next session waits for. */
  #stop = new AbortController();
  #settle = /** @type {{ resolve: () => void, reject: (error: unknown) => void }} */ ({});
  /** @type {Promise<void>} Resolves when nothing uses the sessions, and after the end when they are freed. */
  #work = Promise.resolve();

  /**
   * @param {Parts} parts
   * @param {(part: Part, stop: AbortSignal) => Promise<Api.RuntimeSession<any>>} create
   * @param {{ close: () => void, signal?: AbortSignal | undefined }} weights
   */
  constructor({ parts, inputs, outputs }, create, { close, signal }) {
    this.inputNames = inputs;
    this.outputNames = outputs;
    this.#parts = parts;
    this.#create = create;
    this.#lastUses = new Map(parts.flatMap((part, at) => part.inputs.map((name) => [name, at])));
    for (const name of outputs) this.#lastUses.set(name, Infinity);
    this.loaded = new Promise((/** @type {(value: void) => void} */ resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    this.loaded.catch(() => {}); // `run` reports it, too
    const abort = () => this.#fail(signal?.reason);
    signal?.addEventListener("abort", abort);
    this.#close = () => {
      signal?.removeEventListener("abort", abort);
      close();
    };
    if (signal?.aborted) abort();
    this.#advance();
  }

  /**
   * @param {Record<string, any>} feeds
   * @param {object} [options]
   */
  async run(feeds, options) {
    const values = new Map(Object.entries(feeds));
    const needed = new Set([...this.#parts.flatMap((part) => part.inputs), ...this.outputNames]);
    const absent = this.inputNames.find((name) => needed.has(name) && !values.has(name));
    if (absent !== undefined) throw invalid(`the input "${absent}" is missing`);
    const unknown = [...values.keys()].find((name) => !this.inputNames.includes(name));
    if (unknown !== undefined) throw invalid(`the graph has no input "${unknown}"`);
    return new Promise((/** @type {(outputs: Record<string, any>) => void} */ resolve, reject) => {
      if (this.#end) return void reject(this.#end.error);
      this.#calls.push({ part: 0, values, options, resolve, reject });
      this.#advance();
    });
  }

  /** Frees the sessions. Calls that have not ended reject. */
  async release() {
    this.#fail(fail({ code: "CLOSED", message: "the session is released." }));
    await this.#work;
  }

  #advance() {
    if (this.#isWorking) return;
    const before = this.#work;
    this.#work = this.#proceed().then(() => before);
  }

  /** ONNX Runtime does one thing at a time. A call that can go on comes before the next session. */
  async #proceed() {
    this.#isWorking = true;
    while (!this.#end) {
      const call = this.#calls.find(({ part }) => part < this.#sessions.length);
      const next = this.#parts[this.#sessions.length];
      if (call) await this.#compute(call);
      else if (next) await this.#load(next);
      else break;
    }
    this.#isWorking = false;
    if (this.#end) await Promise.allSettled(this.#sessions.splice(0).map(async (session) => session.release()));
  }

  /** @param {Part} part */
  async #load(part) {
    try {
      const session = await this.#create(part, this.#stop.signal);
      this.#sessions.push(session);
      if (this.#end || this.#sessions.length < this.#parts.length) return;
      this.#close();
      this.#settle.resolve();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @param {Call} call */
  async #compute(call) {
    this.#computing = call;
    const { part: at, values, options } = call;
    const part = this.#parts[at];
    const session = this.#sessions[at];
    try {
      if (!part || !session) return;
      const feeds = Object.fromEntries(part.inputs.map((name) => [name, values.get(name)]));
      const computed = await session.run(feeds, options);
      for (const name of part.outputs) values.set(name, computed[name]);
      if (!this.#calls.includes(call)) return this.#disposeAll(call); // it was rejected meanwhile
      this.#forget(call);
      call.part++;
      if (call.part < this.#parts.length) return;
      this.#remove(call);
      call.resolve(Object.fromEntries(this.outputNames.map((name) => [name, values.get(name)])));
    } catch (error) {
      this.#remove(call);
      call.reject(error);
      this.#disposeAll(call);
    } finally {
      this.#computing = undefined;
    }
  }

  /** @param {Call} call */
  #disposeAll({ values }) {
    for (const [name, value] of values) this.#dispose(name, value);
    values.clear();
  }

  /**
   * Frees what no later part needs, which may be in the memory of a GPU. What the caller has passed is theirs.
   *
   * @param {Call} call
   */
  #forget({ part, values }) {
    for (const [name, value] of values) {
      if ((this.#lastUses.get(name) ?? -1) > part) continue;
      values.delete(name);
      this.#dispose(name, value);
    }
  }

  /**
   * @param {string} name
   * @param {any} value
   */
  #dispose(name, value) {
    if (!this.inputNames.includes(name)) value?.dispose?.();
  }

  /** @param {Call} call */
  #remove(call) {
    this.#calls = this.#calls.filter((other) => other !== call);
  }

  /** @param {unknown} error */
  #fail(error) {
    if (this.#end) return;
    this.#end = { error };
    this.#stop.abort(error);
    this.#close();
    this.#settle.reject(error);
    // What a call passes to a part that is computing is freed when that has ended.
    for (const call of this.#calls.splice(0)) {
      call.reject(error);
      if (call !== this.#computing) this.#disposeAll(call);
    }
    this.#advance();
  }
}
