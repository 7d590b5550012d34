// Loads a model in every way that the package offers, and reports what arrived and how. Every app of the package test
// runs it.

/**
 * The report has the SHA-256 of every tensor; the test compares them with those of the file. `matrix` is the name of a
 * tensor with at least 20 rows.
 */
export async function check({ StreamingLoader, cachedBytes, clearCache }, url, matrix) {
  const started = countWorkers();
  const load = (options) => loadInEveryWay(StreamingLoader, url, matrix, options);
  const first = await load({ workers: 0 }); // on the first visit of a page, before the code of the cache is loaded
  await clearCache();
  return {
    first,
    cold: await load({ workers: 0 }),
    warm: await load({ workers: 0 }),
    cachedBytes: await cachedBytes(),
    workers: await load({ workers: 2, cache: "none" }),
    inWorker: await load({ inWorker: true }),
    loadersInWorkers: started.loaders,
  };
}

async function loadInEveryWay(StreamingLoader, url, matrix, options) {
  const loader = await StreamingLoader.open(url, options);
  const whole = await digestOf(await loader.loadTensor(matrix));
  const rows = await digestOf(await loader.loadTensor(matrix, { rows: [10, 20] }));
  const tensors = {};
  for await (const tensor of loader.tensors()) tensors[tensor.name] = await digestOf(tensor);
  const { bytesReceived, bytesFromCache, cacheError = null, workersError = null } = loader.stats;
  loader.close();
  return { whole, rows, tensors, bytesReceived, bytesFromCache, cacheError, workersError };
}

async function digestOf({ data }) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Counts the workers in which a loader has started. A loader that cannot start a worker runs where it was opened. */
function countWorkers() {
  const started = { loaders: 0 };
  const { Worker } = globalThis;
  if (!Worker) return started;
  globalThis.Worker = class extends Worker {
    constructor(...parameters) {
      super(...parameters);
      this.addEventListener("message", ({ data }) => (started.loaders += Number(data.hasStarted === true)));
    }
  };
  return started;
}
