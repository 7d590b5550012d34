// A web app whose workers are observed, delayed and killed.

// The number of messages that workers received and sent, by kind.
const received = {}, sent = {};
/** The type of a message; of the message that starts a worker, its role. */
const typeOf = (message) => message.type ?? message[1];
const count = (table, kind) => (table[kind] = (table[kind] ?? 0) + 1);
let nextFailure; // how the worker that gets the next bytes fails: "fails" or "is silent"
let delayed; // the delayed messages to workers; messages are delayed while this is an array

globalThis.Worker = globalThis.Worker && class extends Worker {
  constructor(...parameters) {
    super(...parameters);
    this.addEventListener("message", ({ data }) => count(sent, typeOf(data)));
  }

  postMessage(message, transferred) {
    const type = typeOf(message);
    count(received, type);
    if (delayed && type !== "jobs" && type !== "cache") return delayed.push(
      () => super.postMessage(message, transferred),
    );
    super.postMessage(message, transferred);
    if ((type !== "chunk" && type !== "digest") || !nextFailure) return;
    super.terminate();
    if (nextFailure === "fails") this.dispatchEvent(new Event("error"));
    nextFailure = undefined;
  }
};

const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
const sha256 = async ({ data }) => hex(await crypto.subtle.digest("SHA-256", data.slice()));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function open(url, options) {
  const { StreamingLoader } = await import(globalThis.source ?? "/pkg/weightstream.js");
  return StreamingLoader.open(url, { workers: 2, cache: "none", ...options });
}

let workersError; // of the last loader

// The names and hashes of all tensors of a model, sorted, because several connections deliver them in any order.
async function everything(url, options) {
  const loader = await open(url, options);
  const found = [];
  for await (const tensor of loader.tensors()) found.push([tensor.name, await sha256(tensor)]);
  workersError = loader.stats.workersError;
  loader.close();
  return JSON.stringify(found.sort());
}

// The tensors as loaded on the page, after workers have started and have loaded the same.
async function expected(url) {
  const onThePage = await everything(url, { workers: 0 });
  for (let tries = 0; !sent.done && tries < 300; tries++) {
    if (await everything(url) !== onThePage) throw new Error("other bytes");
    if (workersError !== undefined) throw new Error(workersError);
    await pause(10);
  }
  if (!sent.done) throw new Error("no worker has started");
  return onThePage;
}

// Whether workers have started.
globalThis.started = async (url) => (await expected(url)).length > 0 && workersError === undefined;
globalThis.tasksDone = () => sent.done ?? 0;

globalThis.survives = async (url, fate) => {
  const onThePage = await expected(url);
  nextFailure = fate;
  const same = await everything(url) === onThePage;
  const happened = nextFailure === undefined;
  return { same, happened, again: await everything(url) === onThePage, error: workersError ?? "none" };
};

globalThis.goesWithout = async (url, source) => {
  globalThis.source = source;
  const onThePage = await everything(url, { workers: 0 });
  const before = workersError ?? "none";
  const unhandled = [];
  addEventListener("unhandledrejection", ({ reason }) => unhandled.push(String(reason)));
  const same = [];
  for (let turn = 0; turn < 3; turn++) {
    same.push(await everything(url) === onThePage);
    await pause(100);
  }
  return { same: same.every(Boolean), ready: sent.ready ?? 0, unhandled, before, error: workersError ?? "none" };
};

// Aborts while workers wait for the messages of their jobs.
globalThis.aborts = async (url) => {
  const onThePage = await expected(url);
  delayed = [];
  const controller = new AbortController();
  const loader = await open(url);
  const begunBefore = received.begin;
  const load = (async () => {
    for await (const tensor of loader.tensors({ signal: controller.signal })) return tensor.name;
  })().catch((reason) => reason);
  while (received.begin === begunBefore) await pause(5);
  await pause(50);
  const start = performance.now();
  controller.abort("enough");
  const outcome = await load;
  const ms = performance.now() - start;
  await pause(50);
  const released = delayed;
  delayed = undefined;
  released.forEach((post) => post());
  loader.close();
  const before = { ...sent };
  const same = await everything(url) === onThePage;
  return { outcome, ms, same, dropped: received.drop ?? 0, done: sent.done - (before.done ?? 0) };
};

// WebKitGTK has no shared memory: there the page fills every `into`.
// Whether workers convert the tensors of a model of several dtypes to the floats that the page converts them to.
globalThis.converts = async (url, model) => {
  await expected(model); // starts the workers
  const converted = async (options) => {
    const loader = await open(url, options);
    const found = [];
    for await (const tensor of loader.tensors({ as: "F32" })) {
      found.push([tensor.name, tensor.dtype, await sha256(tensor)]);
    }
    loader.close();
    return found.sort();
  };
  const onThePage = await converted({ workers: 0 });
  const done = sent.done;
  const byWorkers = await converted();
  const toFloats = onThePage.filter(([, dtype]) => dtype === "F32").length;
  return {
    same: JSON.stringify(byWorkers) === JSON.stringify(onThePage), tasks: sent.done - done === toFloats,
    several: toFloats > 10,
  };
};

globalThis.shares = async (url) => {
  const isThere = typeof SharedArrayBuffer === "function";
  await expected(url);
  const onThePage = JSON.parse(await everything(url, { workers: 0 }));
  const loader = await open(url);
  const [name, hash] = onThePage[0];
  const { byteLength } = (await loader.loadIndex())[0];
  const into = isThere ? new SharedArrayBuffer(byteLength) : new ArrayBuffer(byteLength);
  const done = sent.done;
  const tensor = await loader.loadTensor(name, { into });
  const given = new ArrayBuffer(byteLength);
  const other = await loader.loadTensor(name, { into: given });
  return {
    isThere: tensor.data.buffer === into, same: await sha256(tensor) === hash,
    byWorkers: sent.done - done === Number(isThere),
    isGiven: other.data.buffer === given, sameGiven: await sha256(other) === hash,
  };
};

// A SafeTensors file with one large tensor whose SHA-256 is pinned.
globalThis.digests = async (url, length) => {
  await expected(url);
  const bytes = new Uint8Array(length).map((_, index) => (index * 2654435761) >>> 13);
  const header = new TextEncoder().encode(
    JSON.stringify({ large: { dtype: "U8", shape: [bytes.length], data_offsets: [0, bytes.length] } }),
  );
  const file = new Uint8Array(8 + header.length + bytes.length);
  new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
  file.set(header, 8);
  file.set(bytes, 8 + header.length);
  const right = hex(await crypto.subtle.digest("SHA-256", bytes)), wrong = "0".repeat(64);
  const load = async (digest, fate, workers = 3) => {
    nextFailure = fate;
    const loader = await open(file, { workers, digests: { tensors: { large: `sha256:${digest}` } } });
    try {
      const tensor = await loader.loadTensor("large");
      return `${tensor.verified} ${await sha256(tensor) === right}`;
    } catch ({ code, tensor }) {
      return `${code} ${tensor}`;
    }
  };
  const messages = () => ({ chunks: received.chunk ?? 0, digests: received.digest ?? 0 });
  const before = messages(), loads = { right: await load(right), wrong: await load(wrong) }, after = messages();
  const lost = { lost: await load(right, "fails"), isLost: !nextFailure, lostAndWrong: await load(wrong) };
  const onThePage = messages();
  const loadOnThePage = (digest) => load(digest, undefined, 0);
  const byBrowser = { rightByBrowser: await loadOnThePage(right), wrongByBrowser: await loadOnThePage(wrong) };
  return {
    ...loads, ...lost, ...byBrowser,
    chunks: after.chunks - before.chunks,
    digests: after.digests - before.digests,
    messagesByBrowser: messages().chunks - onThePage.chunks + messages().digests - onThePage.digests,
  };
};

// How many workers have started after default loads on machines with these numbers of cores, one after another.
globalThis.byDefault = async (url, cores) => {
  const started = [];
  for (const value of cores) {
    Object.defineProperty(navigator, "hardwareConcurrency", { value, configurable: true });
    await everything(url, { workers: undefined });
    // A small model may be loaded before the code of workers; they then start for the next one.
    await new Promise((resolve) => setTimeout(resolve, 500));
    started.push(received.jobs ?? 0);
  }
  return started;
};

// A loader inside a worker, which starts workers of its own.
globalThis.nested = async (url) => {
  const onThePage = await everything(url, { workers: 0 });
  const script = `
    import { StreamingLoader } from "${location.origin}/pkg/weightstream.js";
    const found = [];
    for (let turn = 0; turn < 2; turn++) {
      const loader = await StreamingLoader.open("${new URL(url, location.href)}", { workers: 1, cache: "none" });
      found.length = 0;
      for await (const { name, data } of loader.tensors()) {
        const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
        found.push([name, Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("")]);
      }
      loader.close();
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    postMessage([0, JSON.stringify(found.sort())]);`;
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const worker = new Worker(address, { type: "module" });
  const found = await new Promise((resolve) => {
    worker.onmessage = ({ data }) => resolve(data[1]);
    worker.onerror = (event) => resolve(`it fails: ${event.message}`);
  });
  worker.terminate();
  return found === onThePage ? true : found;
};

globalThis.refuses = async (url) => {
  const code = (promise) => promise.then(() => "none", ({ code }) => code);
  const codes = { many: await code(open(url, { workers: 17 })), negative: await code(open(url, { workers: -1 })) };
  // As in a browser without SIMD.
  WebAssembly.validate = () => false;
  const refuse = async () => Promise.reject(new WebAssembly.CompileError("invalid value type"));
  WebAssembly.instantiateStreaming = WebAssembly.instantiate = refuse;
  return { ...codes, withoutVectors: await code(open(url)) };
};
