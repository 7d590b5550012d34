// The functions that `cargo xtask bench` measures, as a web app would write them. Each returns what it has loaded,
// which is held until `release()`, so that the peak memory includes all of it.
import { StreamingLoader, clearCache, init, listCached } from "/pkg/weightstream.js";

await init();

let held;

// Sorts by file order: several connections deliver tensors in another order.
const { compare } = new Intl.Collator("en", { numeric: true });
const byNumber = (a, b) => compare(a.name, b.name);

const ways = {
  // What a web developer would write without the package.
  async plain({ url, range, skip }) {
    const headers = range ? { Range: `bytes=${range[0]}-${range[1] - 1}` } : {};
    const response = await fetch(url, { cache: "no-store", headers });
    const kept = await response.arrayBuffer();
    return { kept, pieces: () => [kept], skip };
  },

  // The header of a SafeTensors file, with JSON.parse.
  async parsed({ url, range: [start, end] }) {
    const headers = { Range: `bytes=${start}-${end - 1}` };
    const bytes = await (await fetch(url, { cache: "no-store", headers })).arrayBuffer();
    const kept = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8)));
    return { kept, count: Object.keys(kept).filter((name) => name !== "__metadata__").length };
  },

  // The lower bound: only reads into buffers of this length.
  async byob({ url, byteLength }) {
    const { body } = await fetch(url, { cache: "no-store" });
    const reader = body.getReader({ mode: "byob" });
    const kept = [];
    for (;;) {
      let buffer = new ArrayBuffer(byteLength);
      for (let at = 0; at < byteLength;) {
        const { done, value } = await reader.read(new Uint8Array(buffer, at));
        if (done) return { kept, count: kept.length * byteLength };
        buffer = value.buffer;
        at += value.length;
      }
      kept.push(buffer);
    }
  },

  // The lower bound for cached files: a worker reads a file of the origin private file system into buffers of this
  // length.
  async opfs({ byteLength }) {
    const kept = await ask({ byteLength });
    return { kept, count: kept.reduce((sum, buffer) => sum + buffer.byteLength, 0) };
  },

  // With `isWritten`, also waits until the last byte is on the disk. `as` converts the tensors.
  async tensors({ url, options, isWritten, as, names }) {
    const loader = await StreamingLoader.open(url, { cache: "none", ...options });
    const kept = [];
    for await (const tensor of loader.tensors({ as, names })) kept.push(tensor);
    const settle = options?.cache === "auto" ? listCached : undefined; // resolves after all earlier writes
    if (isWritten) await settle();
    const loaded = end(loader, kept, kept.reduce((sum, { data }) => sum + data.byteLength, 0));
    return { ...loaded, settle, pieces: () => kept.toSorted(byNumber).map(({ data }) => data) };
  },

  // The lower bound for pieces of a stream: reads all bytes into one buffer.
  async discard({ url, byteLength }) {
    const { body } = await fetch(url, { cache: "no-store" });
    const reader = body.getReader({ mode: "byob" });
    let buffer = new ArrayBuffer(byteLength);
    let count = 0;
    for (;;) {
      const { done, value } = await reader.read(new Uint8Array(buffer));
      if (done) return { kept: undefined, count };
      count += value.length;
      buffer = value.buffer;
    }
  },

  // The same into buffers of a GPU, which a loader cannot be faster than.
  async discardOnGpu({ url, byteLength, bufferBytes }) {
    const device = await gpuDevice();
    const usage = GPUBufferUsage.COPY_DST | GPUBufferUsage.STORAGE;
    const kept = [];
    const { body } = await fetch(url, { cache: "no-store" });
    const reader = body.getReader({ mode: "byob" });
    let buffer = new ArrayBuffer(byteLength);
    let [count, filled] = [0, 0];
    for (;;) {
      const { done, value } = await reader.read(new Uint8Array(buffer, filled));
      if (done) break;
      count += value.length;
      filled += value.length;
      buffer = value.buffer;
      if (filled < byteLength) continue;
      const at = (count - filled) % bufferBytes;
      if (at === 0) kept.push(device.createBuffer({ size: bufferBytes, usage }));
      device.queue.writeBuffer(kept.at(-1), at, buffer);
      filled = 0;
    }
    await device.queue.onSubmittedWorkDone();
    return { kept, count, free: () => kept.forEach((gpuBuffer) => gpuBuffer.destroy()) };
  },

  // Moves tensors to buffers of a GPU.
  async gpu({ url, names }) {
    const device = await gpuDevice();
    const loader = await StreamingLoader.open(url, { cache: "none" });
    const kept = [];
    for await (const { gpuBuffer } of loader.tensors({ device, names: names ?? undefined })) kept.push(gpuBuffer);
    await device.queue.onSubmittedWorkDone();
    const loaded = end(loader, kept, kept.reduce((sum, { size }) => sum + size, 0));
    return { ...loaded, free: () => kept.forEach((buffer) => buffer.destroy()) };
  },

  async firstTensor({ url, name }) {
    const loader = await StreamingLoader.open(url, { cache: "none" });
    const tensor = await loader.loadTensor(name);
    return end(loader, tensor, tensor.data.byteLength);
  },

  async list({ url }) {
    const loader = await StreamingLoader.open(url, { cache: "none" });
    const list = await loader.loadIndex();
    return end(loader, list, list.length);
  },

  async metadata({ url }) {
    const loader = await StreamingLoader.open(url, { cache: "none" });
    const metadata = await loader.loadMetadata();
    return end(loader, metadata, metadata.metadata["tokenizer.ggml.tokens"].length);
  },
};

// What a function may need before each run, outside the measured time.
const preparations = {
  forget: { tensors: clearCache },
  // Once: the next run finds everything in the cache.
  keep: {
    async tensors(parameters) {
      if ((await listCached()).length === 0) await ways.tensors({ ...parameters, isWritten: true });
    },
    opfs: ({ url }) => ask({ url }),
  },
};

// Adds the functions of another module, and how each clears its cache. After one run, everything is cached.
export async function add(url) {
  const { ways: others, forget } = await import(url);
  Object.assign(ways, others);
  Object.assign(preparations.forget, forget);
  Object.assign(preparations.keep, others);
}

let device;

function gpuDevice() {
  return (device ??= navigator.gpu.requestAdapter().then((adapter) => {
    const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
    return adapter.requestDevice({ requiredLimits: { maxBufferSize, maxStorageBufferBindingSize } });
  }));
}

let reader;

function ask(message) {
  reader ??= new Worker("/bench/opfs.js");
  return new Promise((resolve, reject) => {
    reader.onmessage = ({ data }) => resolve(data);
    reader.onerror = reject;
    reader.postMessage(message);
  });
}

function end(loader, kept, count) {
  const { wasmMemoryBytes } = loader.stats;
  loader.close();
  return { kept, count, wasmMemoryBytes };
}

// Prepares a run: `before` is a name in `preparations`.
export async function prepare(way, { before, ...parameters }) {
  if (before) await preparations[before][way](parameters);
}

// Runs one of the functions and returns how long it took.
export async function run(way, { before, ...parameters }) {
  await pause(); // until earlier work of the page has ended
  const start = performance.now();
  const loaded = await ways[way](parameters);
  const ms = performance.now() - start;
  await loaded.settle?.(); // otherwise the next measurement would include it
  await pause();
  held = loaded;
  const { kept, count, wasmMemoryBytes } = loaded;
  return { ms, count: count ?? kept.byteLength, wasmMemoryBytes: wasmMemoryBytes ?? 0 };
}

// Runs one of the functions and returns the longest time, in milliseconds, in which the page could not respond. It is
// separate from `run`, because this measurement takes time too.
export async function longestWait(way, { before, ...parameters }) {
  await pause();
  const watch = watchTurns();
  const loaded = await ways[way](parameters);
  const longest = watch();
  await loaded.settle?.();
  return longest;
}

// Schedules a task every few milliseconds, before all other tasks. Its delay is that of user input. Chromium itself
// reports only tasks of 50 ms and more.
function watchTurns() {
  const delay = 4;
  let asked = performance.now();
  let longest = 0;
  let ended = false;
  const turn = () => {
    longest = Math.max(longest, performance.now() - asked - delay);
    if (!ended) ask();
  };
  const ask = () => {
    asked = performance.now();
    scheduler.postTask(turn, { delay, priority: "user-blocking" });
  };
  ask();
  return () => {
    ended = true;
    return Math.max(longest, performance.now() - asked - delay);
  };
}

// The SHA-256 of the bytes of all tensors that the last run has loaded.
export async function sha256() {
  const { pieces, skip = 0 } = held;
  const views = pieces().map((piece) => new Uint8Array(piece.buffer ?? piece, piece.byteOffset ?? 0, piece.byteLength));
  const joined = new Uint8Array(await new Blob(views).slice(skip).arrayBuffer());
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", joined));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function release() {
  held?.free?.();
  held = undefined;
}

function pause() {
  return new Promise((resolve) => setTimeout(resolve, 30));
}
