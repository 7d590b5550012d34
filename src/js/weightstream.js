// The face of the package. What it does stands in weightstream.d.ts; the work is done in WebAssembly.
import start, {
  __wbg_reset_state as restart,
  Failure,
  Loader,
  cacheClear,
  cacheDelete,
  cacheList,
  onCrash,
  setWorkers,
  thisModule,
} from "./weightstream_glue.js";

let started;

// A panic ends an instance of the module, and the loaders that live in it. The next one has another number.
let instance = 0;
let crash; // the LoadError, until there is a new instance
const unanswered = new Set(); // what rejects the calls that wait
const workers = new Set();

// A module with the type of a function that returns a vector.
const HAS_VECTORS = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7b]);

export function init(source = new URL("weightstream_bg.wasm", import.meta.url)) {
  if (!globalThis.WebAssembly?.validate(HAS_VECTORS)) return Promise.reject(new LoadError(MAKE, {
    code: "UNSUPPORTED",
    message: "This browser has no WebAssembly with vectors (SIMD), which weightstream needs. " +
      "Use Chrome or Edge 91, Firefox 89, Safari 16.4 or a later version.",
  }));
  if (crash) {
    workers.forEach(endWorker); // they answer to the instance that is gone
    restart();
    onCrash(crashed);
    crash = undefined;
    instance++;
  }
  started ??= start({ module_or_path: source }).then(() => onCrash(crashed), (cause) => {
    started = undefined; // so that a later call can succeed
    throw new LoadError(MAKE, {
      code: "INTERNAL",
      message: `The WebAssembly module of weightstream could not be started: ${cause?.message ?? cause}. ` +
        "Check that weightstream_bg.wasm is served beside weightstream.js, or call init() with its URL.",
      cause,
    });
  });
  return started.then(() => setWorkers(startWorker, endWorker));
}

// Called from within the module, which must not be entered again.
function crashed(what) {
  crash = new LoadError(MAKE, {
    code: "INTERNAL",
    message: `weightstream crashed, and every open loader with it: ${what}. ` +
      "Open the model again, and please report this with the file that caused it.",
  });
  for (const reject of unanswered) reject(crash);
  unanswered.clear();
}

export class StreamingLoader {
  #alive;
  #checked;
  #instance = instance;

  constructor(make, loader, check = checked) {
    if (make !== MAKE) throw new TypeError("Use StreamingLoader.open().");
    this.#alive = loader;
    this.#checked = check;
  }

  // What lives in a worker tells by itself.
  get #isLost() {
    return this.#checked === checked && (crash !== undefined || this.#instance !== instance);
  }

  get #loader() {
    if (!this.#isLost) return this.#alive;
    throw crash ?? new LoadError(MAKE, {
      code: "CLOSED",
      message: "This loader was lost when weightstream crashed. Open the model again.",
    });
  }

  static async open(source, options) {
    await init();
    const remote = options?.inWorker && (await inWorker(addressed(source), options));
    if (remote) return new StreamingLoader(MAKE, remote, async (call) => call());
    return new StreamingLoader(MAKE, await checked(() => Loader.open(addressed(source), options)));
  }

  loadMetadata() {
    return this.#checked(() => this.#loader.loadMetadata(addItems));
  }

  loadIndex() {
    return this.#checked(async () => {
      const tensors = [];
      await this.#loader.loadIndex((...batch) => addTensors(tensors, ...batch));
      return tensors;
    });
  }

  loadTensor(name, options) {
    return this.#checked(() => this.#loader.loadTensor(String(name), options));
  }

  prefetch(names) {
    this.#loader.prefetch(Array.from(names, String));
  }

  async *tensors({ names, signal } = {}) {
    const stream = this.#loader.tensors(names && Array.from(names, String), signal);
    try {
      for (let tensor; (tensor = await this.#checked(() => this.#loader && stream.next())); ) yield tensor;
    } finally {
      if (!this.#isLost) stream.cancel();
    }
  }

  verify({ signal } = {}) {
    return this.#checked(() => this.#loader.verify(signal));
  }

  get stats() {
    return this.#loader.stats;
  }

  close() {
    if (!this.#isLost) this.#alive.close();
  }

  [Symbol.dispose ?? Symbol.for("Symbol.dispose")]() {
    this.close();
  }
}

// Puts in the items of a typed array, or the strings of these lengths that a text was joined of.
function addItems(array, start, numbers, text) {
  let at = 0;
  for (let i = 0; i < numbers.length; i++) {
    array[start + i] = text === undefined ? numbers[i] : text.slice(at, (at += numbers[i]));
  }
}

// Adds a `TensorInfo` for each tensor of a batch: the numbers of one follow those of the other.
function addTensors(tensors, names, numbers, words, attributesOfSome) {
  let at = 0;
  let nameAt = 0;
  let attributesAt = 0;
  while (at < numbers.length) {
    const name = names.slice(nameAt, (nameAt += numbers[at++]));
    const dtype = words[numbers[at++]];
    const shape = new Array(numbers[at++]); // to `push` to an empty one takes room for 17
    for (let i = 0; i < shape.length; i++) shape[i] = numbers[at++];
    const layout = words[numbers[at++]];
    const byteLength = numbers[at++];
    const shard = numbers[at++];
    const components = new Array(numbers[at++]);
    for (let i = 0; i < components.length; i++) components[i] = component();
    const attributes = numbers[at++] ? attributesOfSome[attributesAt++] : {};
    tensors.push({ name, dtype, shape, layout, byteLength, shard, components, attributes });
  }

  function component() {
    const role = words[numbers[at++]];
    const dtype = words[numbers[at++]];
    const length = numbers[at++];
    const byteLength = Number.isNaN(length) ? undefined : length;
    return { role, dtype, byteLength, storedByteLength: numbers[at++], encoding: words[numbers[at++]] };
  }
}

export async function listCached() {
  await init();
  return checked(() => cacheList());
}

export async function cachedBytes() {
  return (await listCached()).reduce((sum, { cachedBytes }) => sum + cachedBytes, 0);
}

export async function deleteCached(url) {
  await init();
  return checked(() => cacheDelete(addressed(String(url)), String(url)));
}

export async function clearCache() {
  await init();
  return checked(() => cacheClear());
}

export class LoadError extends Error {
  constructor(make, { message, code, url, tensor, range, status, cause }) {
    if (make !== MAKE) throw new TypeError("Only weightstream makes a LoadError.");
    super(message, cause === undefined ? undefined : { cause });
    Object.assign(this, { code, url, tensor, range, status });
  }

  get name() {
    return "LoadError";
  }
}

// Kept inside this module, so that nobody else can call the constructors.
const MAKE = Symbol("make");

async function checked(call) {
  let give;
  try {
    return await new Promise((resolve, reject) => {
      unanswered.add((give = reject));
      call().then(resolve, reject);
    });
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError) {
      if (!crash) crashed(error.message); // no panic, but as fatal: out of memory, for one
      throw crash;
    }
    if (!(error instanceof Failure)) throw error; // an abort's own reason
    try {
      throw new LoadError(MAKE, error);
    } finally {
      error.free();
    }
  } finally {
    unanswered.delete(give);
  }
}

// A loader in a worker of its own; nothing where there can be none.
async function inWorker(source, { fetch, cache, cacheKey, inWorker, ...options }) {
  if (fetch || cacheKey || (cache && typeof cache === "object")) throw new LoadError(MAKE, {
    code: "INVALID_ARGUMENT",
    message: "A loader in a worker can call neither a `fetch` nor a `cache` nor a `cacheKey` of the page. Leave it or `inWorker` out.",
  });
  const { openRemote } = await import("./weightstream.remote.js").catch(() => ({}));
  return openRemote?.(newWorker, thisModule(), source, { ...options, cache }, (fields) => new LoadError(MAKE, fields));
}

// Bundlers look for exactly this expression.
const newWorker = () => new Worker(new URL("weightstream.worker.js", import.meta.url), { type: "module" });

const startWorker = () => {
  const worker = newWorker();
  workers.add(worker);
  return worker;
};

const endWorker = (worker) => {
  worker.terminate();
  workers.delete(worker);
};

// URLs are made absolute against the page, or the worker's script.
function addressed(source) {
  if (typeof source !== "string" && !(source instanceof URL)) return source;
  const base = globalThis.document?.baseURI ?? globalThis.location?.href;
  try {
    return new URL(source, base).href;
  } catch (cause) {
    throw new LoadError(MAKE, { code: "INVALID_ARGUMENT", message: `"${source}" is not a URL. Correct the call.`, cause });
  }
}
