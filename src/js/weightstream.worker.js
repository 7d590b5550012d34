// A worker: one of those that keep files in the origin private file system, that decode and digest, or that load. The page sends
// it the module that it runs itself.
import {
  Failure,
  Loader,
  cacheList,
  initSync,
  onCrash,
  serveCache,
  serveJobs,
  setWorkers,
} from "./weightstream_glue.js";
import { crashFields, notePanic, whenCrashed } from "./weightstream.guard.js";

globalThis.onmessage = ({ data: [module, role] }) => {
  initSync({ module });
  onCrash(notePanic);
  whenCrashed(({ what }) => failLater(what));
  ({ cache: serveCache, jobs: serveJobs, loader: serveLoader })[role]();
};

// Of a module that this worker may not have, for one.
globalThis.onmessageerror = () => failLater("a message cannot be read here");

// The page's `onerror` gets it.
const failLater = (what) => setTimeout(() => {
  throw new Error(what);
});

// So many bytes of tensors may be on their way to the page, or wait there.
const MAX_AHEAD_BYTES = 8 << 20;

// So often, while something is done, the page is told how far it is.
const TELL_STATS_MS = 50;

// Does what a RemoteLoader asks for: see weightstream.remote.js.
function serveLoader() {
  const calls = new Map();
  let loader;
  let keeps;
  let telling;
  let hasCrashed = false;

  whenCrashed((end) => {
    hasCrashed = true;
    clearInterval(telling);
    const { cause, ...fields } = crashFields(end, "weightstream in its worker", "the loader");
    postMessage({ crash: fields });
  });
  setWorkers(startAnother, (worker) => worker.terminate());

  globalThis.onmessage = ({ data: { number, method, args, isStopped, takenBytes, isClosed } }) => {
    if (isClosed) return end();
    if (method) return answer(number, method, args);
    const call = calls.get(number);
    if (isStopped) call?.stopping.abort();
    if (takenBytes && call) call.aheadBytes -= takenBytes;
    call?.goOn?.();
  };
  postMessage({ hasStarted: true });

  async function answer(number, method, args) {
    const stopping = new AbortController();
    const call = { number, stopping, signal: stopping.signal, aheadBytes: 0 };
    calls.set(number, call);
    telling ??= setInterval(tell, TELL_STATS_MS);
    try {
      const [told, transferred] = (await methods[method](call, ...args)) ?? [];
      tell({ number, ...told, isDone: true }, transferred);
    } catch (error) {
      tell({ number, failure: failureOf(error) });
    } finally {
      calls.delete(number);
      if (calls.size === 0) telling = clearInterval(telling);
    }
  }

  const methods = {
    async open({ signal }, source, { onProgress, ...options }) {
      keeps = options.cache !== "none";
      const told = onProgress ? (progress) => tell({ progress }) : undefined;
      loader = await Loader.open(source, { ...options, signal, onProgress: told });
    },

    // The pieces go into arrays of the metadata: in one message they stay the same arrays.
    async loadMetadata() {
      const pieces = [];
      const value = await loader.loadMetadata((...piece) => pieces.push(piece));
      return [{ value, pieces }];
    },

    async loadIndex({ number }) {
      await loader.loadIndex((...piece) => postMessage({ number, pieces: [piece] }));
    },

    async loadTensor({ signal }, name, options) {
      const value = await loader.loadTensor(name, { ...options, signal });
      return [{ value }, buffersOf(value)];
    },

    async tensors(call, names) {
      const stream = loader.tensors(names, call.signal);
      for (let tensor; (tensor = await stream.next()); ) {
        const buffers = buffersOf(tensor);
        const byteLength = buffers.reduce((sum, buffer) => sum + buffer.byteLength, 0);
        call.aheadBytes += byteLength;
        tell({ number: call.number, tensor: { tensor, byteLength } }, buffers);
        while (call.aheadBytes > MAX_AHEAD_BYTES && !call.signal.aborted) await new Promise((goOn) => (call.goOn = goOn));
      }
    },

    async prefetch(_, names) {
      loader.prefetch(names);
    },

    async verify({ signal }) {
      return [{ value: await loader.verify(signal) }];
    },
  };

  function tell(message, transferred) {
    if (!hasCrashed) postMessage({ ...message, stats: loader?.stats }, transferred);
  }

  async function end() {
    for (const call of calls.values()) {
      call.stopping.abort(); // nobody waits for it
      call.goOn?.();
    }
    if (hasCrashed) return;
    loader?.close();
    loader = undefined;
    if (keeps) await cacheList().catch(() => {}); // answers when what came before it is written
    postMessage({ hasEnded: true });
  }
}

// This script once more, and of the same kind, which a bundler may have changed: bundlers would take a name of it for a circle.
function startAnother() {
  const worker = new Worker(location.href, isClassic() ? undefined : { type: "module" });
  // What fails there is told to whoever started it. Left alone, the event would go on to the page, as if this worker had failed.
  worker.addEventListener("error", (event) => event.preventDefault());
  return worker;
}

// Only a classic worker may import scripts: in others that is a TypeError, in Firefox only where there is one to import. What a
// Content-Security-Policy says of it is another error.
function isClassic() {
  try {
    importScripts("data:text/javascript,");
    return true;
  } catch (error) {
    return !(error instanceof TypeError);
  }
}

// What a LoadError is made of.
function failureOf(error) {
  if (!(error instanceof Failure)) return { code: "INTERNAL", message: String(error) };
  const { message, code, url, tensor, range, status, cause } = error;
  error.free();
  return { message, code, url, tensor, range, status, cause: cloneable(cause) };
}

function cloneable(cause) {
  try {
    return structuredClone(cause);
  } catch {
    return new Error(String(cause));
  }
}

// The memory of a tensor, as far as it can be handed over: what is shared need not be.
function buffersOf({ components }) {
  const buffers = Array.from(components.values(), ({ data }) => data.buffer);
  return Array.from(new Set(buffers)).filter((buffer) => buffer instanceof ArrayBuffer);
}
