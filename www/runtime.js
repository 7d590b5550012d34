// @ts-check
// ONNX Runtime Web and the tokenizer of all-MiniLM-L6-v2. The server of the demo has the npm packages below `npm/`.

import { openFile } from "./pkg/weightstream.js";

/**
 * The part of the interface of ONNX Runtime Web that this page uses.
 *
 * @typedef {object} Ort
 * @property {{ logLevel: string, wasm: { wasmPaths: string, numThreads: number } }} env
 * @property {{ create(graph: Uint8Array, options: SessionOptions): Promise<Session> }} InferenceSession
 * @property {new (type: string, data: Float32Array | BigInt64Array, dims: readonly number[]) => OrtTensor} Tensor
 */

/** @typedef {{ readonly data: Float32Array, readonly dims: readonly number[] }} OrtTensor */
/** @typedef {{ executionProviders: string[], externalData?: ExternalData[] }} SessionOptions */
/** @typedef {{ path: string, data: Blob | Uint8Array }} ExternalData */

/**
 * @typedef {object} Session
 * @property {readonly string[]} inputNames
 * @property {readonly string[]} outputNames
 * @property {(feeds: Record<string, OrtTensor>) => Promise<Record<string, OrtTensor>>} run
 * @property {() => Promise<void>} release
 */

/** @typedef {{ encode(text: string): { ids: number[] } }} Tokenizer */

/**
 * `readsLazily`: whether sessions read each weight when they need it. They read the whole file otherwise.
 *
 * @typedef {{ ort: Ort, tokenizer: Tokenizer, pooling: Session, readsLazily: boolean }} Runtime
 */

const ORT = new URL("npm/onnxruntime-web/", import.meta.url).href;
const TOKENIZERS = new URL("npm/tokenizers/tokenizers.min.mjs", import.meta.url).href;
const MODEL = new URL("minilm/", import.meta.url).href;

/** @type {SessionOptions} */
export const SESSION = { executionProviders: ["wasm"] };

/** @type {Promise<Runtime> | undefined} */
let started;

/** Whether the runtime was started before, so that it takes no time. */
export const isStarted = () => started !== undefined;

/**
 * Starts the runtime. Later calls return the same, unless it failed.
 *
 * @returns {Promise<Runtime>}
 */
export function startRuntime() {
  started ??= start().catch((reason) => {
    started = undefined;
    throw reason;
  });
  return started;
}

async function start() {
  // With JavaScript Promise Integration, a session can wait for a weight while it is being created.
  const readsLazily = "Suspending" in WebAssembly;
  const [ort, tokenizer, graph] = await Promise.all([
    /** @type {Promise<Ort>} */ (load(`${ORT}${readsLazily ? "ort.jspi.min.mjs" : "ort.wasm.min.mjs"}`)),
    loadTokenizer(),
    loadGraph("pooling"),
  ]);
  ort.env.logLevel = "error";
  // The sentences are short: threads take longer to start than they save.
  Object.assign(ort.env.wasm, { wasmPaths: ORT, numThreads: 1 });
  // The first session compiles the WebAssembly module. The pooling has no weights to wait for.
  const pooling = await ort.InferenceSession.create(graph, SESSION).catch((/** @type {Error} */ cause) => {
    // ONNX Runtime does not start a second time after a failure.
    throw new Error(`ONNX Runtime did not start: ${cause.message}. Reload the page to try again.`, { cause });
  });
  return { ort, tokenizer, pooling, readsLazily };
}

/** @returns {Promise<Tokenizer>} */
async function loadTokenizer() {
  const [{ Tokenizer }, settings] = await Promise.all([
    load(TOKENIZERS),
    withFile("tokenizer.json", (file) => file.json()),
  ]);
  return new Tokenizer(settings, {});
}

/**
 * Loads the graph of a part, without its weights.
 *
 * @param {string} part
 */
const loadGraph = (part) => withFile(`${part}.onnx`, (file) => file.bytes());

/**
 * The model without its weights: the parts that have weights, in the order in which they compute. `weights` are the
 * ranges of a part's weights in the file `location`.
 *
 * @typedef {{ location: string, parts: Part[] }} Graph
 * @typedef {object} Part
 * @property {string} name
 * @property {string} title
 * @property {Record<string, [start: number, end: number]>} weights
 * @property {Uint8Array} graph
 */

/** @returns {Promise<Graph>} */
export async function loadGraphs() {
  const { location, parts } = await withFile("graph.json", async (file) => /** @type {Graph} */ (await file.json()));
  const withGraph = async (/** @type {Part} */ part) => ({ ...part, graph: await loadGraph(part.name) });
  return { location, parts: await Promise.all(parts.map(withGraph)) };
}

/**
 * @template T
 * @param {string} name
 * @param {(file: import("./pkg/weightstream.js").RemoteFile) => Promise<T>} read
 */
async function withFile(name, read) {
  const file = await openFile(MODEL + name);
  try {
    return await read(file);
  } finally {
    file.close();
  }
}

/**
 * Imports a module. The error of the browser does not say what is missing.
 *
 * @param {string} url
 * @returns {Promise<any>}
 */
async function load(url) {
  try {
    return await import(url);
  } catch (cause) {
    const message = `The page could not load ${url}. Serve it with “cargo xtask demo”, which installs it.`;
    throw new Error(message, { cause });
  }
}
