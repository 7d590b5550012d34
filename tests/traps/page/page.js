// What the traps are set to: the package, as a web app uses it.
import { StreamingLoader } from "/pkg/weightstream.js";

// Also from a worker, where the page's address says so. What has a `fetch` of its own stays here.
const inWorker = new URLSearchParams(location.search).has("in-worker");
const open = (url, options) => StreamingLoader.open(url, { inWorker: inWorker && !options.fetch, ...options });

// How many workers for loaders were started: where they cannot be, loaders are on the page, and nobody notices.
let started = 0;
globalThis.loadersInWorkers = () => started;
globalThis.Worker = class extends Worker {
  constructor(...parameters) {
    super(...parameters);
    this.addEventListener("message", ({ data }) => (started += Number(data.hasStarted === true)));
  }
};

// Small waits, so that tests are fast; but a busy machine must not look like a stall.
const RETRY = { baseDelay: 1, maxDelay: 20, stallTimeout: 5000 };

// Opens a model and loads one thing after the other: a tensor (a name) or several (a list of names). Gives what arrived,
// in order, as pairs of name and SHA-256; the error in which it ended; and what progress said that cannot be.
globalThis.spring = async (url, loads, options = {}, patience = RETRY.stallTimeout) => {
  const arrived = [], impossible = [];
  let failure = null;
  const onProgress = ({ type, loaded, total }) => {
    if (loaded > total) impossible.push(`${type}: ${loaded} of ${total}`);
  };
  try {
    const loader = await open(url, { retry: { ...RETRY, stallTimeout: patience }, onProgress, ...options });
    await loader.loadIndex();
    for (const load of loads) {
      if (typeof load === "string") arrived.push([load, await sha256(await loader.loadTensor(load))]);
      else for await (const tensor of loader.tensors({ names: load })) arrived.push([tensor.name, await sha256(tensor)]);
    }
    loader.close();
  } catch (error) {
    failure = told(error);
  }
  return { arrived, failure, impossible };
};

// Whether fetch gives byte streams here, so that bodies can be read into one's own buffer.
globalThis.hasByteStreams = async () => {
  try {
    (await fetch("/")).body.getReader({ mode: "byob" });
    return true;
  } catch {
    return false;
  }
};

// The same through streams that are no byte streams.
globalThis.springWithoutByteStreams = (url, loads) => {
  const plain = async (address, init) => {
    const response = await fetch(address, init);
    const { status, headers } = response;
    return new Response(response.body.pipeThrough(new TransformStream()), { status, headers });
  };
  return spring(url, loads, { fetch: plain });
};

// The same with secrets.
globalThis.springWithSecrets = (url, loads) =>
  spring(url, loads, { headers: { Authorization: "Bearer s3cret", "X-Api-Key": "s3cret" } });

// Begins a load that would take long, aborts it and gives what it rejected with and how long that took.
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

// The same, of a loop over all tensors.
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

// The same, of a loader that is closed.
globalThis.close = async (url, name) => {
  const loader = await open(url, { retry: RETRY });
  const outcome = loader.loadTensor(name).then(() => ({ code: "none" }), told);
  await bytesArrive(loader);
  loader.close();
  return outcome;
};

// Two callers want one tensor; the first of them aborts.
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

function told({ name, code, status, tensor, url, message }) {
  return { code: code ?? name, status, tensor, url, message };
}
