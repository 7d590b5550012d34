// The package as a web app uses it, for the tests of network traps.
import { StreamingLoader } from "/pkg/weightstream.js";

// Loaders run in a worker if the address of the page says so. Loaders with a `fetch` of their own run on the page.
const inWorker = new URLSearchParams(location.search).has("in-worker");
const open = (url, options) => StreamingLoader.open(url, { inWorker: inWorker && !options.fetch, ...options });

// Counts the loaders in workers: if none can be started, loaders silently run on the page.
let started = 0;
globalThis.loadersInWorkers = () => started;
globalThis.Worker = class extends Worker {
  constructor(...parameters) {
    super(...parameters);
    this.addEventListener("message", ({ data }) => (started += Number(data.hasStarted === true)));
  }
};

// Short delays, so that the tests are fast. On a busy machine, a delay must not count as a stall.
const RETRY = { baseDelay: 1, maxDelay: 20, stallTimeout: 5000 };

// Opens a model and loads one item after the other: a tensor (a name) or several tensors (a list of names). Returns the
// tensors in order as pairs of name and SHA-256, the error that ended the load, contradictions in the progress, and
// what the loader reports about its addresses.
globalThis.loadAll = async (url, loads, options = {}, stallTimeout = RETRY.stallTimeout) => {
  const arrived = [], impossible = [];
  let failure = null, mirrors;
  const onProgress = ({ type, loaded, total }) => {
    if (loaded > total) impossible.push(`${type}: ${loaded} of ${total}`);
  };
  try {
    const loader = await open(url, { retry: { ...RETRY, stallTimeout }, onProgress, ...options });
    await loader.loadIndex();
    for (const load of loads) {
      if (typeof load === "string") arrived.push([load, await sha256(await loader.loadTensor(load))]);
      else for await (const tensor of loader.tensors({ names: load })) arrived.push(
        [tensor.name, await sha256(tensor)],
      );
    }
    ({ mirrors } = loader.stats);
    loader.close();
  } catch (error) {
    failure = fieldsOf(error);
  }
  return { arrived, failure, impossible, mirrors };
};

// Whether fetch returns byte streams in this browser, so that bodies can be read into an existing buffer.
globalThis.hasByteStreams = async () => {
  try {
    (await fetch("/")).body.getReader({ mode: "byob" });
    return true;
  } catch {
    return false;
  }
};

// The same with streams that are not byte streams.
globalThis.loadAllWithoutByteStreams = (url, loads) => {
  const plain = async (address, init) => {
    const response = await fetch(address, init);
    const { status, headers } = response;
    return new Response(response.body.pipeThrough(new TransformStream()), { status, headers });
  };
  return globalThis.loadAll(url, loads, { fetch: plain });
};

// The same with credentials.
globalThis.loadAllWithCredentials = (url, loads) =>
  globalThis.loadAll(url, loads, { headers: { Authorization: "Bearer s3cret", "X-Api-Key": "s3cret" } });

// Starts a long load and aborts it. Returns the rejection and how long it took.
globalThis.abort = async (url, name) => {
  const loader = await open(url, { retry: RETRY });
  const controller = new AbortController(), reason = new Error("enough");
  const load = loader.loadTensor(name, { signal: controller.signal });
  const outcome = load.then(() => "loaded", (error) => (error === reason ? "its own reason" : String(error)));
  await bytesArrive(loader);
  const start = performance.now();
  controller.abort(reason);
  return { outcome: await outcome, milliseconds: performance.now() - start };
};

// The same for a loop over all tensors.
globalThis.abortLoop = async (url) => {
  const loader = await open(url, { retry: RETRY });
  const controller = new AbortController(), reason = new Error("enough"), arrived = [];
  bytesArrive(loader).then(() => controller.abort(reason));
  try {
    for await (const tensor of loader.tensors({ signal: controller.signal })) arrived.push(tensor.name);
  } catch (error) {
    return { arrived, isItsOwnReason: error === reason };
  }
};

// The same for a loader that is closed.
globalThis.close = async (url, name) => {
  const loader = await open(url, { retry: RETRY });
  const outcome = loader.loadTensor(name).then(() => ({ code: "none" }), fieldsOf);
  await bytesArrive(loader);
  loader.close();
  return outcome;
};

// Two calls load the same tensor; the first of them is aborted.
globalThis.abortOneOfTwo = async (url, name) => {
  const loader = await open(url, { retry: RETRY });
  const controller = new AbortController();
  const one = loader.loadTensor(name, { signal: controller.signal }).then(() => "loaded", (error) => error.name);
  const other = loader.loadTensor(name);
  await bytesArrive(loader);
  controller.abort();
  return { one: await one, other: await sha256(await other) };
};

async function bytesArrive(loader) {
  const before = loader.stats.bytesReceived;
  while (loader.stats.bytesReceived < before + 100_000) await new Promise((resolve) => setTimeout(resolve, 5));
}

async function sha256({ data }) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function fieldsOf({ name, code, status, tensor, url, message }) {
  return { code: code ?? name, status, tensor, url, message };
}
