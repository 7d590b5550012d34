// A loader that lives in a worker, as the page has it: the methods of the one in WebAssembly, by messages. The other end of them is
// in weightstream.worker.js.
import { fail, invalid } from "./weightstream.error.js";

// A worker that says nothing for so long after it was started never will.
const START_MS = 10_000;

// To start a worker, and those that it starts, takes a tenth of a second: one whose loader was closed waits for the next.
const IDLE_MS = 10_000;

// The worker, which waits where it is some MiB ahead, is told in steps of so many bytes what was taken.
const STEP_BYTES = 2 << 20;

let spare; // a worker without a loader
let lastNumber = 0; // of all calls, so that no answer to an old one is taken for that to a new one

// Opens a model in a worker, which runs `module`, too: `{ loader }`; where none can be started, `{ workersError }` says why.
export async function openRemote(startWorker, module, source, { signal, onProgress, ...options }) {
  const begun = takeSpare() ?? begin(startWorker, module);
  if (begun.workersError !== undefined) return begun;
  const loader = new RemoteLoader(begun, onProgress);
  const workersError = await loader.failure(signal);
  if (workersError !== undefined) return { workersError };
  try {
    await loader.open(source, { ...options, onProgress: onProgress !== undefined }, signal);
    return { loader };
  } catch (error) {
    loader.close();
    throw error;
  }
}

// Gives the worker, and a promise of why it has not started; only that where the page may have none.
function begin(startWorker, module) {
  let worker;
  try {
    worker = startWorker();
  } catch (cause) {
    return { workersError: `workers cannot be started: ${cause?.message ?? cause}` };
  }
  const failure = new Promise((resolve) => {
    const silent = `weightstream.worker.js has not started within ${START_MS / 1000} s`;
    const timer = setTimeout(resolve, START_MS, silent);
    const settle = (reason) => (clearTimeout(timer), resolve(reason));
    worker.onmessage = ({ data }) => settle(data?.crash && `weightstream.worker.js does not run: ${data.crash.message}`);
    worker.onerror = worker.onmessageerror = (event) => {
      event.preventDefault?.(); // the page goes on without
      settle(event.message ? `weightstream.worker.js does not run: ${event.message}` : UNSAID);
    };
    try {
      worker.postMessage([module, "loader"]);
    } catch (cause) {
      settle(`the module cannot be sent to a worker: ${cause?.message ?? cause}`);
    }
  });
  return { worker, failure };
}

// Browsers do not tell why a script was not loaded.
const UNSAID = "weightstream.worker.js cannot be loaded: it is not served or not bundled, or the page's Content-Security-Policy " +
  "(`worker-src`) forbids it";

function takeSpare() {
  const taken = spare;
  spare = undefined;
  clearTimeout(taken?.timer);
  return taken;
}

function keepSpare(worker) {
  if (spare) return worker.terminate();
  const drop = () => {
    if (spare?.worker === worker) takeSpare();
    worker.terminate();
  };
  worker.onmessage = ({ data }) => data.crash && drop();
  worker.onerror = worker.onmessageerror = drop;
  spare = { worker, failure: Promise.resolve(), timer: setTimeout(drop, IDLE_MS) };
}

class RemoteLoader {
  #worker;
  #failure;
  #onProgress;
  #calls = new Map();
  #lost; // the LoadError, once nothing more can be asked
  #stats;

  constructor({ worker, failure }, onProgress) {
    this.#worker = worker;
    this.#onProgress = onProgress;
    this.#failure = failure.then((reason) => {
      if (reason !== undefined) {
        worker.terminate();
        return reason;
      }
      worker.onmessage = ({ data }) => this.#hear(data);
      worker.onerror = worker.onmessageerror = (event) => {
        event.preventDefault?.(); // those who wait are told
        this.#crashed(crashOf(event.message || "its messages cannot be read, or no reason is known"));
      };
      return undefined;
    });
  }

  get stats() {
    return this.#stats;
  }

  // Why the worker has not started. Settles also where the signal aborts first, of which `open` tells.
  failure(signal) {
    return new Promise((resolve) => {
      this.#failure.then(resolve);
      if (signal?.aborted) resolve();
      signal?.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  open(source, options, signal) {
    return this.#call("open", [source, options], { signal });
  }

  loadMetadata(add) {
    return this.#call("loadMetadata", [], { add });
  }

  loadIndex(add) {
    return this.#call("loadIndex", [], { add });
  }

  async loadTensor(name, { signal, into, ...others }) {
    const isCopied = into && !isShared(into.buffer);
    const stand = isCopied ? standInFor(into) : into;
    const transferred = isCopied ? [stand.buffer] : [];
    const tensor = await this.#call("loadTensor", [name, { ...others, into: stand }], { signal }, transferred);
    if (into) putInto(into, tensor, isCopied, name);
    return tensor;
  }

  prefetch(names) {
    this.#call("prefetch", [names]).catch(() => {}); // errors are left to `loadTensor`
  }

  verify(signal) {
    return this.#call("verify", [], { signal });
  }

  tensors(names, signal) {
    const come = []; // tensors that were not asked for yet
    const call = { signal, take: (tensor) => (come.push(tensor), wake?.()) };
    let wake, isOver, takenBytes = 0;
    const outcome = this.#call("tensors", [names], call);
    const end = (isFailed) => {
      isOver = true;
      if (isFailed) come.length = 0; // nobody may have them any more
      wake?.();
    };
    outcome.then(() => end(false), () => end(true));
    return {
      next: async () => {
        while (come.length === 0 && !isOver) await new Promise((resolve) => (wake = resolve));
        if (come.length === 0) return outcome;
        const { tensor, byteLength } = come.shift();
        takenBytes += byteLength;
        if (takenBytes >= STEP_BYTES) {
          this.#worker.postMessage({ number: call.number, takenBytes });
          takenBytes = 0;
        }
        return tensor;
      },
      cancel: () => {
        if (!isOver) call.stop?.();
        end(true);
      },
    };
  }

  close() {
    if (this.#lost) return;
    this.#lose(fail({ code: "CLOSED", message: "the loader is closed. Open a new loader." }));
    // It answers once all is kept.
    this.#failure.then((reason) => reason === undefined && this.#worker.postMessage({ isClosed: true }));
  }

  #call(method, args, call = {}, transferred = []) {
    const { signal } = call;
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#lost) return Promise.reject(this.#lost);
    call.number = ++lastNumber;
    return new Promise((resolve, reject) => {
      const settling = (settle) => (outcome) => {
        this.#calls.delete(call.number);
        signal?.removeEventListener("abort", call.stop);
        settle(outcome);
      };
      call.resolve = settling(resolve);
      call.reject = settling(reject);
      call.stop = () => {
        this.#worker.postMessage({ number: call.number, isStopped: true });
        call.reject(signal?.reason);
      };
      try {
        this.#worker.postMessage({ number: call.number, method, args }, transferred);
      } catch (cause) {
        return reject(invalid(`what was given to ${method} cannot go to a worker (${cause.message}): leave \`inWorker\` out`, cause));
      }
      this.#calls.set(call.number, call);
      signal?.addEventListener("abort", call.stop);
    });
  }

  #hear({ stats, progress, crash, hasEnded, number, pieces, tensor, failure, isDone, value }) {
    if (stats) this.#stats = stats;
    if (crash) return this.#crashed(crash);
    if (hasEnded) return keepSpare(this.#worker);
    if (progress) return this.#tell(progress);
    const call = this.#calls.get(number);
    if (!call) return; // it was stopped
    pieces?.forEach((piece) => call.add(...piece));
    if (tensor) call.take(tensor);
    if (failure) call.reject(fail(failure));
    if (isDone) call.resolve(value);
  }

  // A fault of the page must not end the load, nor go unseen.
  #tell(progress) {
    try {
      this.#onProgress(progress);
    } catch (exception) {
      reportError(exception);
    }
  }

  #crashed(fields) {
    this.#worker.terminate();
    this.#lose(fail(fields));
  }

  #lose(error) {
    this.#lost ??= error;
    for (const call of [...this.#calls.values()]) call.reject(this.#lost);
  }
}

const crashOf = (what) => ({
  code: "INTERNAL",
  message: `weightstream crashed in its worker, and the loader with it: ${what}. ` +
    "Open the model again, and please report this with the file that caused it.",
});

const isShared = (memory) => Object.prototype.toString.call(memory) === "[object SharedArrayBuffer]";

// As many bytes, which may go to the worker, and begin at a multiple of 8 only where the others do.
function standInFor({ byteOffset, byteLength }) {
  const start = byteOffset % 8;
  return new Uint8Array(new ArrayBuffer(start + byteLength), start, byteLength);
}

// Has the tensor lie in the caller's own memory: it is a view of a copy, or of the same shared memory under another name.
function putInto(own, tensor, isCopied, name) {
  for (const component of tensor.components.values()) {
    const { data } = component;
    try {
      if (isCopied) own.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      component.data = new data.constructor(own.buffer, own.byteOffset, data.length);
    } catch (cause) {
      throw fail({
        code: "INVALID_ARGUMENT",
        message: `tensor "${name}": \`into\` was detached or shrunk while a tensor was loaded into it. ` +
          "Neither transfer nor resize its memory until the call has settled.",
        tensor: name,
        cause,
      });
    }
    if (tensor.data) tensor.data = component.data;
  }
}
