// Runs an app in Rust, and counts its workers and their messages.
import init, { cached, clearCache, deleteCached, load, setWorker } from "/pkg/app_test.js";

const workers = { names: [], answers: 0 };
const BrowserWorker = globalThis.Worker;
globalThis.Worker = class extends BrowserWorker {
  constructor(url, options) {
    super(url, options);
    workers.names.push(options.name);
    this.addEventListener("message", () => workers.answers++);
  }
};

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const digest = async (bytes) => hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));

globalThis.started = init().then(() => document.title);

// Loads a model. Returns the digests of its tensors, the report, and what workers did.
globalThis.load = async (path, cache, count) => {
  await globalThis.started;
  Object.assign(workers, { names: [], answers: 0 });
  const [tensors, report] = await load(new URL(path, location).href, cache, count);
  const digests = {};
  for (const [name, bytes] of Object.entries(tensors)) digests[name] = await digest(bytes);
  return { digests, ...JSON.parse(report), ...workers };
};

// Waits for the first answers of workers.
globalThis.ready = async (count) => {
  while (workers.answers < count) await new Promise((resolve) => setTimeout(resolve, 10));
};

globalThis.loadIntoObject = async (path) => {
  const map = new Map();
  const cache = {
    get: async (key) => map.get(key),
    set: async (key, value) => void map.set(key, value),
    delete: async (key) => void map.delete(key),
    keys: async () => [...map.keys()],
  };
  return { cold: await globalThis.load(path, cache, 0), warm: await globalThis.load(path, cache, 0) };
};

globalThis.error = (path, cache) => globalThis.load(path, cache, 0).then(() => "no error", ({ message }) => message);

globalThis.useOwnWorker = async () => {
  await globalThis.started;
  setWorker(() => new Worker("own_worker.js", { type: "module", name: "weightstream" }));
};

globalThis.cached = async () => JSON.parse(await cached());
globalThis.deleteCached = (path) => deleteCached(new URL(path, location).href);
globalThis.clearCache = () => clearCache();
