// Loading everything: every tensor is taken as it comes, counted, hashed if asked, and let go.

// How many bytes may wait to be hashed: the load goes on meanwhile, but must not outrun the memory.
const MAX_UNHASHED_BYTES = 128 * 1024 * 1024;

/**
 * Streams all tensors of a model and keeps none. Never throws: what went wrong is `error`.
 *
 * `seconds` is the time of the load alone: hashing runs beside it, off this thread, and what it held up here is taken out.
 */
export async function loadEverything(loader, { signal, sha256 = false, onTensor = () => {} }) {
  const hashes = new Hashes();
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

/** What the headless runner reads. */
export function reportOf(loader, outcome) {
  const { error, seconds = 0, tensors = [] } = outcome;
  return {
    ok: error === undefined,
    ...(error && { error: error.message ?? String(error), code: error.code ?? error.name }),
    seconds,
    tensors,
    stats: loader?.stats,
  };
}

function describe({ name, dtype, shape, components, verified }) {
  let byteLength = 0;
  for (const { data } of components.values()) byteLength += data.byteLength;
  return { name, dtype, shape: [...shape], byteLength, sha256: null, verified };
}

class Hashes {
  pendingBytes = 0;
  #pending = [];

  /** Fills in `entry.sha256`, or one for each component where a tensor has several. */
  begin(tensor, entry) {
    if (tensor.data) {
      this.#hash(tensor.data, entry);
      return;
    }
    entry.components = [];
    for (const [role, { dtype, data }] of tensor.components) {
      const part = { role, dtype, byteLength: data.byteLength, sha256: null };
      entry.components.push(part);
      this.#hash(data, part);
    }
  }

  /** Waits for what has begun. */
  async drain() {
    await Promise.all(this.#pending);
    this.#pending = [];
  }

  #hash(data, entry) {
    this.pendingBytes += data.byteLength;
    this.#pending.push((async () => {
      const digest = await crypto.subtle.digest("SHA-256", data);
      entry.sha256 = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
      this.pendingBytes -= data.byteLength;
    })());
  }
}
