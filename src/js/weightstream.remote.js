// A loader that lives in a worker, as the page has it: the methods of the one in WebAssembly, by messages. The other end of them is
// in weightstream.worker.js.

// A worker that says nothing for so long after it was started never will.
const START_MS = 10_000;

// To start a worker, and those that it starts, takes a tenth of a second: one whose loader was closed waits for the next.
const IDLE_MS = 10_000;

// The worker, which waits where it is some MiB ahead, is told in steps of so many bytes what was taken.
const STEP_BYTES = 2 << 20;

let spare; // a worker without a loader
let lastNumber = 0; // of all calls, so that no answer to an old one is taken for that to a new one

// Opens a model in a worker, which runs `module`, too. Gives nothing where none can be started. `fail` makes a LoadError.
export async function openRemote(startWorker, module, source, { signal, onProgress, ...options }, fail) {
  const begun = takeSpare() ?? begin(startWorker, module);
  const loader = begun && new RemoteLoader(begun, onProgress, fail);
  if (!(await loader?.hasStarted(signal))) return undefined;
  try {
    const isTold = typeof onProgress === "function" || onProgress; // anything else is refused there
    await loader.open(source, { ...options, onProgress: isTold }, signal);
    return loader;
  } catch (error) {
    loader.close();
    throw error;
  }
}

// Gives the worker, and a promise of whether it has started; nothing where the page may have none.
function begin(startWorker, module) {
  let worker;
  try {
    worker = startWorker();
  } catch {
    return undefined;
  }
  const hasStarted = new Promise((resolve) => {
    setTimeout(resolve, START_MS, false);
    worker.onmessage = () => resolve(true);
    worker.onerror = (event) => {
      event.preventDefault?.(); // the page goes on without
      resolve(false);
    };
    worker.postMessage([module, "loader"]);
  });
  return { worker, hasStarted };
}

function takeSpare() {
  const taken = spare;
  spare = undefined;
  clearTimeout(taken?.timer);
  return taken;
}

function keepSpare(worker) {
  if (spare) return worker.terminate();
  const drop = () => takeSpare().worker.terminate();
  worker.onmessage = ({ data }) => data.crash && drop();
  worker.onerror = drop;
  spare = { worker, hasStarted: Promise.resolve(true), timer: setTimeout(drop, IDLE_MS) };
}

class RemoteLoader {
  #worker;
  #hasStarted;
  #onProgress;
  #fail;
  #calls = new Map();
  #lost; // the LoadError, once nothing more can be asked
  #stats;

  constructor({ worker, hasStarted }, onProgress, fail) {
    this.#worker = worker;
    this.#onProgress = onProgress;
    this.#fail = fail;
    this.#hasStarted = hasStarted.then((has) => {
      if (!has) return worker.terminate();
      worker.onmessage = ({ data }) => this.#hear(data);
      worker.onerror = (event) => {
        event.preventDefault?.(); // those who wait are told
        this.#crashed(event.message ?? "no reason is known");
      };
      return true;
    });
  }

  get stats() {
    return this.#stats;
  }

  // Also where the signal aborts first, of which `open` tells.
  hasStarted(signal) {
    return new Promise((resolve) => {
      this.#hasStarted.then(resolve);
      if (signal?.aborted) resolve(true);
      signal?.addEventListener?.("abort", () => resolve(true), { once: true });
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

  async loadTensor(name, options) {
    const { signal, into, ...others } = options ?? {};
    const own = viewOf(into);
    const isCopied = own && own.buffer instanceof ArrayBuffer;
    const stand = isCopied ? standInFor(own) : into;
    const transferred = isCopied ? [stand.buffer] : [];
    const tensor = await this.#call("loadTensor", [name, { ...others, into: stand }], { signal }, transferred);
    if (own) putInto(own, tensor, isCopied);
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
    let outcome, isOver, wake, takenBytes = 0;
    const begin = () => {
      outcome = this.#call("tensors", [names], call);
      outcome.catch(() => {}).then(() => ((isOver = true), wake?.()));
    };
    return {
      next: async () => {
        if (!outcome) begin();
        while (come.length === 0 && !isOver) await new Promise((resolve) => (wake = resolve));
        if (signal?.aborted) throw signal.reason;
        if (this.#lost) throw this.#lost;
        if (come.length === 0) return outcome;
        const { tensor, byteLength } = come.shift();
        takenBytes += byteLength;
        if (takenBytes >= STEP_BYTES) {
          this.#worker.postMessage({ number: call.number, takenBytes });
          takenBytes = 0;
        }
        return tensor;
      },
      cancel: () => !isOver && call.stop?.(),
    };
  }

  close() {
    if (this.#lost) return;
    this.#lose(this.#fail({ code: "CLOSED", message: "the loader is closed. Open a new loader." }));
    this.#hasStarted.then((has) => has && this.#worker.postMessage({ isClosed: true })); // answered once all is kept
  }

  #call(method, args, call = {}, transferred = []) {
    const { signal } = call;
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#lost) return Promise.reject(this.#lost);
    call.number = ++lastNumber;
    return new Promise((resolve, reject) => {
      const settling = (settle) => (outcome) => {
        this.#calls.delete(call.number);
        signal?.removeEventListener?.("abort", call.stop);
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
        const what = `what was given to ${method} cannot go to a worker (${cause.message})`;
        return reject(this.#fail({ code: "INVALID_ARGUMENT", message: `${what}. Correct the call, or leave \`inWorker\` out.`, cause }));
      }
      this.#calls.set(call.number, call);
      signal?.addEventListener?.("abort", call.stop);
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
    if (failure) call.reject(this.#fail(failure));
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

  #crashed(what) {
    this.#worker.terminate();
    this.#lose(this.#fail({
      code: "INTERNAL",
      message: `weightstream crashed in its worker, and the loader with it: ${what}. ` +
        "Open the model again, and please report this with the file that caused it.",
    }));
  }

  #lose(error) {
    this.#lost ??= error;
    for (const call of [...this.#calls.values()]) call.reject(this.#lost);
  }
}

// All bytes of a memory that the caller gave; undefined for anything else.
function viewOf(into) {
  if (ArrayBuffer.isView(into)) return new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
  const isMemory = into instanceof ArrayBuffer || (globalThis.SharedArrayBuffer && into instanceof SharedArrayBuffer);
  return isMemory ? new Uint8Array(into) : undefined;
}

// As many bytes, which may go to the worker, and begin at a multiple of 8 only where the others do.
function standInFor({ byteOffset, byteLength }) {
  const start = byteOffset % 8;
  return new Uint8Array(new ArrayBuffer(start + byteLength), start, byteLength);
}

// Has the tensor lie in the caller's own memory: it is a view of a copy, or of the same shared memory under another name.
function putInto(own, tensor, isCopied) {
  for (const component of tensor.components.values()) {
    const { data } = component;
    if (isCopied) own.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    component.data = new data.constructor(own.buffer, own.byteOffset, data.length);
    if (tensor.data) tensor.data = component.data;
  }
}
