// @ts-check
// Embeds sentences with all-MiniLM-L6-v2. Each layer has a session of its own, so that it computes as soon as its
// weights have arrived, while those of the next layers are still being loaded.

import { StreamingLoader } from "./pkg/weightstream.js";
import { externalData } from "./pkg/weightstream.onnxruntime.js";
import { Batch } from "./batch.js";
import { PartReader, checkPlaces } from "./parts.js";
import { SESSION, isStarted, loadGraphs, startRuntime } from "./runtime.js";

/** @import { LoaderStats } from "./pkg/weightstream.js" */
/** @import { Arrival, Interval } from "./arrival.js" */
/** @import { Runtime, Session } from "./runtime.js" */

/**
 * A step on the way to the first embedding. Times are in milliseconds since the embedding was requested. Until
 * `prepared`, a session is created, which may have to wait for weights; then it computes.
 *
 * @typedef {object} Step
 * @property {string} name
 * @property {number} byteLength The weights.
 * @property {Interval} [reading] When the weights arrived.
 * @property {number} begun
 * @property {Interval[]} waits
 * @property {number} prepared
 * @property {number} ended
 */

/**
 * The first embeddings, and how long they took.
 *
 * @typedef {object} FirstEmbeddings
 * @property {Embedder} embedder
 * @property {Float32Array[]} embeddings
 * @property {Step[]} steps
 * @property {number} milliseconds
 * @property {boolean} wasStarted Whether the runtime had been started before.
 * @property {LoaderStats} stats
 */

/** The model, ready to embed. */
export class Embedder {
  #runtime;
  #sessions;

  /**
   * @param {Runtime} runtime
   * @param {Session[]} sessions
   */
  constructor(runtime, sessions) {
    this.#runtime = runtime;
    this.#sessions = sessions;
  }

  /**
   * The embeddings of texts, and their tokens.
   *
   * @param {readonly string[]} texts
   */
  async embed(texts) {
    const batch = new Batch(this.#runtime, texts);
    for (const session of this.#sessions) await batch.advance(session);
    return { embeddings: await batch.finish(), tokens: batch.tokens };
  }

  /** Frees the memory of the model. */
  async release() {
    await release(this.#sessions);
  }
}

/**
 * Loads the weights and computes meanwhile. `onStep` is called with the name of each step when it begins.
 *
 * @param {string | File[]} source
 * @param {readonly string[]} texts
 * @param {{ signal: AbortSignal, onStep: (name: string) => void }} options
 * @returns {Promise<FirstEmbeddings>}
 */
export async function firstEmbeddings(source, texts, { signal, onStep }) {
  const requested = performance.now();
  const since = (/** @type {number} */ time) => Math.max(0, time - requested);
  const now = () => since(performance.now());
  const wasStarted = isStarted();
  onStep("the model");
  // In a worker, weights are decoded while this thread computes.
  const opening = StreamingLoader.open(source, { signal, inWorker: true });
  const starting = startRuntime().then((runtime) => ({ runtime, ready: now() }));
  const loadingGraphs = loadGraphs();
  // The error that is awaited first is reported.
  for (const loading of [starting, loadingGraphs]) loading.catch(() => {});
  const loader = await opening;
  const close = () => loader.close();
  signal.addEventListener("abort", close);
  /** @type {Session[]} */
  const sessions = [];
  try {
    const graphs = await loadingGraphs;
    const [{ path, data }] = await externalData(loader, graphs.location);
    await checkPlaces(data, graphs);
    const opened = now();
    const weights = new PartReader(data, graphs);
    onStep("ONNX Runtime");
    const { runtime, ready } = await starting;
    /** @type {Step[]} */
    const steps = [
      { name: "Model index", byteLength: 0, begun: 0, waits: [[0, opened]], prepared: opened, ended: opened },
      { name: "ONNX Runtime", byteLength: 0, begun: 0, waits: [], prepared: ready, ended: ready },
    ];
    const batch = new Batch(runtime, texts);
    for (const [number, { title, graph }] of graphs.parts.entries()) {
      signal.throwIfAborted();
      onStep(title);
      const begun = now();
      const arrival = weights.take(number);
      const session = await create(runtime, graph, path, arrival);
      weights.release(number);
      sessions.push(session);
      const prepared = now();
      await batch.advance(session);
      const interval = (/** @type {Interval} */ [from, to]) => /** @type {Interval} */ ([since(from), since(to)]);
      const [waits, reading] = [arrival.waits.map(interval), interval(arrival.reading)];
      steps.push({ name: title, byteLength: arrival.byteLength, reading, begun, waits, prepared, ended: now() });
    }
    const embeddings = await batch.finish();
    signal.throwIfAborted();
    const embedder = new Embedder(runtime, sessions);
    return { embedder, embeddings, steps, milliseconds: now(), wasStarted, stats: loader.stats };
  } catch (reason) {
    await release(sessions);
    throw signal.aborted ? signal.reason : reason;
  } finally {
    signal.removeEventListener("abort", close);
    loader.close();
  }
}

/** @param {Session[]} sessions */
const release = (sessions) => Promise.all(sessions.map((session) => session.release()));

/**
 * Creates the session of a part.
 *
 * @param {Runtime} runtime
 * @param {Uint8Array} graph
 * @param {string} path
 * @param {Arrival} arrival
 */
async function create({ ort, readsLazily }, graph, path, arrival) {
  try {
    const data = await arrival.data(readsLazily);
    return await ort.InferenceSession.create(graph, { ...SESSION, externalData: [{ path, data }] });
  } catch (reason) {
    // The runtime does not say why a weight is missing.
    throw arrival.failure ?? reason;
  }
}
