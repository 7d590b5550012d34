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
import { LoadError, MAKE, fail, invalid } from "./weightstream.error.js";
import { crashFields, notePanic, whenCrashed } from "./weightstream.guard.js";
import * as options from "./weightstream.options.js";

export { LoadError };

let started;

// A crash ends an instance of the module, and the loaders that live in it. The next one has another number.
let instance = 0;
let crash; // the LoadError, until there is a new instance
const unanswered = new Set(); // what rejects the calls that wait
const workers = new Set();

// A module with the type of a function that returns a vector.
const HAS_VECTORS = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7b]);

export async function init(source = new URL("weightstream_bg.wasm", import.meta.url)) {
  if (!globalThis.WebAssembly?.validate(HAS_VECTORS)) throw fail({
    code: "UNSUPPORTED",
    message: "This browser has no WebAssembly with vectors (SIMD), which weightstream needs. " +
      "Use Chrome or Edge 91, Firefox 89, Safari 16.4 or a later version.",
  });
  started ??= start({ module_or_path: source }).then(() => onCrash(notePanic), (cause) => {
    started = undefined; // so that a later call can succeed
    throw notStarted(cause);
  });
  await started;
  if (crash) startAnew(); // not before: the call that asks may come from within the old instance
  entered(() => setWorkers(startWorker, endWorker));
}

function startAnew() {
  try {
    restart();
  } catch (cause) {
    throw notStarted(cause);
  }
  onCrash(notePanic);
  crash = undefined;
  instance++;
}

function notStarted(cause) {
  const what = `The WebAssembly module of weightstream could not be started: ${cause?.message ?? cause}. `;
  if (cause instanceof RangeError) return fail({
    code: "LIMIT",
    message: what + "The browser has no memory for it: close other tabs, or drop what is not needed any more.",
    cause,
  });
  const advice = "Check that weightstream_bg.wasm is served beside weightstream.js, or call init() with its URL.";
  return fail({ code: "INTERNAL", message: what + advice, cause });
}

// The instance must not be entered any more.
whenCrashed((end) => {
  crash = fail(crashFields(end, "weightstream", "every open loader"));
  workers.forEach(endWorker); // they answer to the instance that is gone
  for (const reject of unanswered) reject(crash);
  unanswered.clear();
});

export class StreamingLoader {
  #alive;
  #checked;
  #instance = instance;
  #workersError; // why a loader that should be in a worker is not

  constructor(make, loader, { check = checked, workersError } = {}) {
    if (make !== MAKE) throw new TypeError("Use StreamingLoader.open().");
    this.#alive = loader;
    this.#checked = check;
    this.#workersError = workersError;
  }

  // What lives in a worker tells by itself.
  get #isLost() {
    return this.#checked === checked && (crash !== undefined || this.#instance !== instance);
  }

  get #loader() {
    if (!this.#isLost) return this.#alive;
    throw crash ?? fail({ code: "CLOSED", message: "This loader was lost when weightstream crashed. Open the model again." });
  }

  static async open(source, given) {
    const { inWorker, ...read } = options.openOptions(given);
    const from = options.sourceOf(source);
    await init();
    const remote = inWorker ? await openInWorker(from, read) : {};
    if (remote.loader) return new StreamingLoader(MAKE, remote.loader, { check: async (call) => call() });
    return new StreamingLoader(MAKE, await checked(() => Loader.open(from, read)), remote);
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

  loadTensor(name, given) {
    return this.#checked(async () => this.#loader.loadTensor(options.tensorName(name), options.tensorOptions(given)));
  }

  prefetch(names) {
    const read = options.names(names);
    entered(() => this.#loader.prefetch(read));
  }

  // Nothing is read before the first tensor is asked for.
  tensors(given) {
    let stream, isLost;
    const begin = () => {
      const { names, signal } = options.tensorsOptions(given);
      stream = this.#loader.tensors(names, signal);
      isLost = () => this.#isLost;
    };
    const next = () => this.#checked(async () => {
      if (!stream) begin();
      return this.#loader && stream.next();
    });
    return new TensorIterator(next, () => stream && !isLost() && stream.cancel());
  }

  verify(given) {
    return this.#checked(async () => this.#loader.verify(options.verifyOptions(given).signal));
  }

  get stats() {
    const stats = entered(() => this.#loader.stats);
    return this.#workersError === undefined ? stats : { ...stats, workersError: this.#workersError };
  }

  close() {
    if (!this.#isLost) entered(() => this.#alive.close());
  }

  [Symbol.dispose ?? Symbol.for("Symbol.dispose")]() {
    this.close();
  }
}

// An iterator that nobody has any more ends its load, as far as the browser tells of it.
const forgotten = globalThis.FinalizationRegistry && new FinalizationRegistry((stop) => stop());

const AsyncIteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}.prototype));

// What a generator would be, but one that `return` ends also while it waits for a tensor.
class TensorIterator {
  #next;
  #stop;
  #last = Promise.resolve();
  #isDone = false;

  constructor(next, stop) {
    this.#next = next;
    this.#stop = stop;
    forgotten?.register(this, stop, this);
  }

  next() {
    const step = this.#last.then(async () => {
      if (this.#isDone) return { value: undefined, done: true };
      try {
        const value = await this.#next();
        if (value && !this.#isDone) return { value, done: false };
      } catch (error) {
        this.#end();
        throw error;
      }
      this.#end();
      return { value: undefined, done: true };
    });
    this.#last = step.catch(() => {});
    return step;
  }

  async return(value) {
    this.#end();
    return { value: await value, done: true };
  }

  async throw(error) {
    this.#end();
    throw error;
  }

  #end() {
    if (this.#isDone) return;
    this.#isDone = true;
    forgotten?.unregister(this);
    this.#stop();
  }
}
Object.setPrototypeOf(TensorIterator.prototype, AsyncIteratorPrototype);
Object.defineProperty(TensorIterator.prototype, Symbol.toStringTag, { value: "TensorIterator", configurable: true });

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
  const address = options.urlOf(url);
  await init();
  return checked(() => cacheDelete(address, typeof url === "string" ? url : address));
}

export async function clearCache() {
  await init();
  return checked(() => cacheClear());
}

// Enters the module, which may end in there.
function entered(call) {
  try {
    return call();
  } catch (error) {
    throw error instanceof LoadError ? error : crash ?? error;
  }
}

async function checked(call) {
  let give;
  try {
    return await new Promise((resolve, reject) => {
      unanswered.add((give = reject));
      call().then(resolve, reject);
    });
  } catch (error) {
    if (error instanceof LoadError) throw error;
    if (!(error instanceof Failure)) throw isFault(error) ? crash : error; // an abort's own reason
    throw loadErrorOf(error);
  } finally {
    unanswered.delete(give);
  }
}

// Whether it is what the module ended with, rather than the reason of an abort.
const isFault = (error) => crash !== undefined && (error instanceof WebAssembly.RuntimeError || error === crash.cause);

function loadErrorOf(failure) {
  try {
    const error = fail(failure);
    failure.free();
    return error;
  } catch {
    // Its instance has ended since.
    return crash ?? fail({ code: "INTERNAL", message: "weightstream crashed before it could say what failed. Open the model again." });
  }
}

// A loader in a worker of its own; where there can be none, why.
async function openInWorker(source, { fetch, cache, cacheKey, ...read }) {
  if (fetch || cacheKey || (cache && typeof cache === "object")) {
    throw invalid("a loader in a worker can call neither a `fetch` nor a `cache` nor a `cacheKey` of the page: leave it or `inWorker` out");
  }
  let remote;
  try {
    remote = await import("./weightstream.remote.js");
  } catch (cause) {
    return { workersError: `weightstream.remote.js cannot be loaded: ${cause?.message ?? cause}` };
  }
  return remote.openRemote(newWorker, thisModule(), source, { ...read, cache });
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
