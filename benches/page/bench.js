// What `cargo xtask bench` measures, as a web app would do it. Each function gives what it loaded, which is held until
// `release()`: the peak of memory counts all of it.
import { StreamingLoader, init } from "/pkg/weightstream.js";

await init();

let held;

const ways = {
  // What a web developer would otherwise write.
  async plain({ url, range }) {
    const headers = range ? { Range: `bytes=${range[0]}-${range[1] - 1}` } : {};
    const response = await fetch(url, { cache: "no-store", headers });
    return { kept: await response.arrayBuffer() };
  },

  // The floor: nothing but reads into buffers of this length.
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

  async tensors({ url, options }) {
    const loader = await StreamingLoader.open(url, options);
    const kept = [];
    for await (const tensor of loader.tensors()) kept.push(tensor);
    return end(loader, kept, kept.reduce((sum, { data }) => sum + data.byteLength, 0));
  },

  async firstTensor({ url, name }) {
    const loader = await StreamingLoader.open(url);
    const tensor = await loader.loadTensor(name);
    return end(loader, tensor, tensor.data.byteLength);
  },

  async list({ url }) {
    const loader = await StreamingLoader.open(url);
    const list = await loader.loadIndex();
    return end(loader, list, list.length);
  },

  async metadata({ url }) {
    const loader = await StreamingLoader.open(url);
    const metadata = await loader.loadMetadata();
    return end(loader, metadata, 0);
  },
};

function end(loader, kept, count) {
  const { wasmMemoryBytes } = loader.stats;
  loader.close();
  return { kept, count, wasmMemoryBytes };
}

// Runs one of the ways; tells how long it took, and how long the longest task of the page.
export async function run(way, parameters) {
  const tasks = [];
  const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries()));
  observer.observe({ type: "longtask" });
  await pause(); // what was asked of the page before is over
  const start = performance.now();
  const { kept, count, wasmMemoryBytes } = await ways[way](parameters);
  const ms = performance.now() - start;
  await pause();
  tasks.push(...observer.takeRecords());
  observer.disconnect();
  held = kept;
  const longestTaskMs = Math.max(0, ...tasks.filter((task) => task.startTime >= start).map((task) => task.duration));
  return { ms, longestTaskMs, count: count ?? kept.byteLength, wasmMemoryBytes: wasmMemoryBytes ?? 0 };
}

export function release() {
  held = undefined;
}

function pause() {
  return new Promise((resolve) => setTimeout(resolve, 30));
}
