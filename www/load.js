// @ts-check
// Loads a whole model: every tensor is counted, hashed if requested, and released.

/** @import { LoaderStats, StreamingLoader, Tensor, Verified } from "./pkg/weightstream.js" */

/**
 * What the report says of a loaded tensor. A tensor of several components has a hash for each of them.
 *
 * @typedef {object} TensorEntry
 * @property {string} name
 * @property {string} dtype
 * @property {number[]} shape
 * @property {number} byteLength
 * @property {string | null} sha256
 * @property {Verified} verified
 * @property {ComponentEntry[]} [components]
 */

/** @typedef {{ role: string, dtype: string, byteLength: number, sha256: string | null }} ComponentEntry */

/**
 * The result of a load. If it failed, `error` is the reason, and the rest says how far it got.
 *
 * @typedef {{ error?: unknown, seconds: number, tensors: TensorEntry[], byteLength: number }} LoadOutcome
 */

// The maximum number of bytes that wait to be hashed while the load continues.
const MAX_UNHASHED_BYTES = 128 * 1024 * 1024;

/**
 * Streams all tensors of a model and keeps none. It never rejects: see `error` of the outcome.
 *
 * `seconds` is the time of the load without hashing, which runs concurrently on another thread.
 *
 * @param {StreamingLoader} loader
 * @param {{ signal: AbortSignal, sha256?: boolean, onTensor?: (entry: TensorEntry) => void }} options
 * @returns {Promise<LoadOutcome>}
 */
export async function loadEverything(loader, { signal, sha256 = false, onTensor = () => {} }) {
  const hashes = new Hashes();
  /** @type {TensorEntry[]} */
  const tensors = [];
  let byteLength = 0;
  let error;
  let hashingMs = 0;
  const startedAt = performance.now();
  try {
    for await (const tensor of loader.tensors({ signal })) {
      const entry = describe(tensor);
      tensors.push(entry);
      byteLength += entry.byteLength;
      onTensor(entry);
      if (!sha256) continue;
      const hashingAt = performance.now();
      hashes.begin(tensor, entry);
      if (hashes.pendingBytes > MAX_UNHASHED_BYTES) await hashes.drain();
      hashingMs += performance.now() - hashingAt;
    }
  } catch (reason) {
    error = reason;
  }
  const seconds = (performance.now() - startedAt - hashingMs) / 1000;
  try {
    await hashes.drain();
  } catch (reason) {
    error ??= reason;
  }
  return { error, seconds, tensors, byteLength };
}

/**
 * The report that the headless runner reads.
 *
 * @param {{ readonly stats: LoaderStats } | undefined} loader
 * @param {Partial<LoadOutcome>} outcome
 */
export function reportOf(loader, outcome) {
  const { seconds = 0, tensors = [] } = outcome;
  const error = /** @type {{ message?: string, code?: string, name?: string } | undefined} */ (outcome.error);
  return {
    ok: error === undefined,
    ...(error && { error: error.message ?? String(error), code: error.code ?? error.name }),
    seconds,
    tensors,
    stats: loader?.stats,
  };
}

/**
 * @param {Tensor} tensor
 * @returns {TensorEntry}
 */
function describe({ name, dtype, shape, components, verified }) {
  let byteLength = 0;
  for (const { data } of components.values()) byteLength += data.byteLength;
  return { name, dtype, shape: [...shape], byteLength, sha256: null, verified };
}

class Hashes {
  pendingBytes = 0;
  /** @type {Promise<void>[]} */
  #pending = [];

  /**
   * Starts to compute `entry.sha256`, or one hash for each component.
   *
   * @param {Tensor} tensor
   * @param {TensorEntry} entry
   */
  begin(tensor, entry) {
    if (tensor.data) {
      this.#hash(tensor.data, entry);
      return;
    }
    entry.components = [];
    for (const [role, { dtype, data }] of tensor.components) {
      /** @type {ComponentEntry} */
      const part = { role, dtype, byteLength: data.byteLength, sha256: null };
      entry.components.push(part);
      this.#hash(data, part);
    }
  }

  /** Waits for all hashes that have been started. */
  async drain() {
    await Promise.all(this.#pending);
    this.#pending = [];
  }

  /**
   * @param {ArrayBufferView} data
   * @param {{ sha256: string | null }} entry
   */
  #hash(data, entry) {
    this.pendingBytes += data.byteLength;
    this.#pending.push((async () => {
      const digest = await crypto.subtle.digest("SHA-256", /** @type {ArrayBufferView<ArrayBuffer>} */ (data));
      const hex = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0"));
      entry.sha256 = hex.join("");
      this.pendingBytes -= data.byteLength;
    })());
  }
}
