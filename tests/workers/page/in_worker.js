// Compares a loader in a worker with one on the page: every call must have the same result.

const sha = async (data) => {
  // A copy, because digests do not accept shared memory.
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
};

const open = async (url, options) => {
  const { StreamingLoader } = await import(globalThis.source ?? "/pkg/weightstream.js");
  return StreamingLoader.open(url, { cache: "none", retry: { attempts: 0 }, ...options });
};

// All properties of a tensor, with hashes of its data, for comparison.
const describe = async ({ data, components, ...others }) => ({
  ...others,
  data: data && [data.constructor.name, data.byteOffset, await sha(data)],
  isFirst: data === undefined || data === components.get("data").data,
  components: await Promise.all(
    Array.from(components, async ([role, { dtype, data }]) => [role, dtype, data.constructor.name, await sha(data)]),
  ),
});

const failing = (promise) => promise.then(() => "nothing", (error) => {
  const { name, code, message, url, tensor, range, status, cause } = error;
  return { name, code, message, url, tensor, range, status, cause: cause && String(cause) };
});

const all = async (tensors) => {
  const found = [];
  for await (const tensor of tensors) found.push(await describe(tensor));
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
};

// The calls to compare. `t0` is a tensor of the model; `byteLength` is the length of each tensor.
const CALLS = {
  metadata: (loader) => loader.loadMetadata(),
  index: (loader) => loader.loadIndex(),
  tensor: async (loader) => describe(await loader.loadTensor("t0")),
  rows: async (loader) => describe(await loader.loadTensor("t0", { rows: [3, 1000] })),
  everything: (loader) => all(loader.tensors()),
  some: (loader) => all(loader.tensors({ names: new Set(["t1", "t4"]) })),
  verified: (loader) => loader.verify(),
  missing: (loader) => failing(loader.loadTensor("nowhere")),
  oneMissing: (loader) => failing(loader.tensors({ names: ["t1", "nowhere"] }).next()),
  rowsBeyond: (loader) => failing(loader.loadTensor("t0", { rows: [0, 2 ** 40] })),
  noRows: (loader) => failing(loader.loadTensor("t0", { rows: "all" })),
  intoTooShort: (loader) => failing(loader.loadTensor("t0", { into: new ArrayBuffer(12) })),
  intoNothing: (loader) => failing(loader.loadTensor("t0", { into: "nothing" })),
  given: async (loader, byteLength) => {
    const memory = new ArrayBuffer(byteLength + 24);
    const { data, ...others } = await loader.loadTensor("t0", { into: new Uint8Array(memory, 8, byteLength) });
    return [
      data.buffer === memory, data.byteOffset, await describe({ data, ...others }), await sha(new Uint8Array(memory)),
    ];
  },
  shared: async (loader, byteLength) => {
    if (typeof SharedArrayBuffer === "undefined") return "not available";
    const memory = new SharedArrayBuffer(byteLength);
    const { data, ...others } = await loader.loadTensor("t0", { into: memory });
    return [data.buffer === memory, await describe({ data, ...others })];
  },
  prefetched: async (loader) => {
    loader.prefetch(["t5", "nowhere"]);
    return describe(await loader.loadTensor("t5"));
  },
  stats: async (loader) => {
    await loader.loadTensor("t3");
    const { wasmMemoryBytes, ...others } = loader.stats;
    return [wasmMemoryBytes > 0, others];
  },
  aborted: (loader) => failing(loader.loadTensor("t0", { signal: AbortSignal.abort("enough") })),
  abortedLoop: (loader) => failing(loader.tensors({ signal: AbortSignal.abort(new Error("enough")) }).next()),
  closed: async (loader) => {
    const iterator = loader.tensors();
    await iterator.next();
    const running = failing(loader.loadTensor("t2"));
    loader.close();
    loader.close();
    return [
      await running, await failing(iterator.next()), await failing(loader.loadTensor("t0")),
      await failing(loader.verify()),
    ];
  },
};

// Makes each call of both loaders and returns the differences.
globalThis.differences = async (url, byteLength) => {
  const exact = (_, value) => (typeof value === "bigint" ? `${value}n` : value);
  const different = {};
  for (const [name, call] of Object.entries(CALLS)) {
    const answers = [];
    for (const inWorker of [false, true]) {
      const loader = await open(url, { workers: 0, inWorker });
      answers.push(JSON.stringify(await call(loader, byteLength), exact));
      loader.close();
    }
    if (answers[0] !== answers[1]) different[name] = answers;
  }
  return { asked: Object.keys(CALLS).length, different };
};

// The same for the errors of `open`, and for progress events.
globalThis.openings = async (url) => {
  const reports = [];
  for (const inWorker of [false, true]) {
    const errors = {};
    const attempt = async (name, source, options) => {
      errors[name] = await failing(open(source, { inWorker, ...options }));
    };
    await attempt("nowhere", "/made/nowhere.apr");
    await attempt("noModel", "/page/index.html");
    await attempt("noUrl", "http://");
    await attempt("manyWorkers", url, { workers: 17 });
    await attempt("noFunction", url, { onProgress: "often" });
    await attempt("noOption", url, { concurency: 2 });
    await attempt("noDigest", url, { digests: { tensors: { t0: "md5:00" } } });
    await attempt("aborted", url, { signal: AbortSignal.abort("enough") });
    const events = [];
    const loader = await open(url, { inWorker, onProgress: (event) => events.push(event) });
    for await (const { name } of loader.tensors()) void name;
    loader.close();
    const { loaded, total, done, verified, type } = events.at(-1);
    reports.push(JSON.stringify({ errors, last: { loaded, total, done, verified, type } }));
  }
  const cannotGo = {};
  for (const [name, source, options] of [
    ["fetch", url, { fetch: (...request) => fetch(...request) }],
    ["cache", url, { cache: new Map() }],
    ["bytes", { byteLength: 8, slice: () => new ArrayBuffer(8) }, {}],
  ]) cannotGo[name] = (await failing(open(source, { ...options, inWorker: true }))).code;
  const same = reports[0] === reports[1];
  return { same, told: same ? undefined : reports, cannotGo };
};

// Local files and bytes.
globalThis.localSources = async (url) => {
  const bytes = await (await fetch(url)).arrayBuffer();
  const found = [];
  for (const source of [new Blob([bytes]), [new File([bytes], "model.apr")], bytes, new Uint8Array(bytes)]) {
    for (const inWorker of [false, true]) {
      const loader = await open(source, { inWorker });
      found.push(JSON.stringify(await all(loader.tensors())));
      loader.close();
    }
  }
  return { count: found.length, same: found.every((one) => one === found[0] && one.length > 100) };
};

// If the page takes tensors slowly, the worker waits.
globalThis.waits = async (url) => {
  const loader = await open(url, { inWorker: true, workers: 0, maxMemory: 0 });
  const iterator = loader.tensors();
  await iterator.next();
  const seen = [];
  // Until nothing has changed for two seconds: on a busy machine, a worker can stand still for half a second.
  while (seen.length < 400 && (seen.length < 40 || seen.at(-40) !== seen.at(-1))) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    seen.push(loader.stats.bytesDecoded);
  }
  const rest = [];
  for await (const { name } of iterator) rest.push(name);
  loader.close();
  return { decoded: seen.at(-1), rest: rest.length };
};

// A worker that crashes does not affect other loaders.
globalThis.crashes = async (url) => {
  const workers = [];
  const { Worker } = globalThis;
  globalThis.Worker = class extends Worker {
    constructor(...parameters) {
      super(...parameters);
      workers.push(this);
    }
  };
  const lost = await open(url, { inWorker: true, workers: 0 });
  const other = await open(url, { inWorker: true, workers: 0 });
  globalThis.Worker = Worker;
  const never = failing(lost.tensors({ names: ["t0"], signal: new AbortController().signal }).next());
  workers[0].onmessage({ data: { crash: { code: "INTERNAL", message: "this is a test" } } });
  return {
    during: await never, after: await failing(lost.loadTensor("t0")), others: (await all(other.tensors())).length,
  };
};

// The next loader finds what a loader has cached, even if that was closed as soon as everything had arrived.
globalThis.keeps = async (url) => {
  const { clearCache, listCached } = await import("/pkg/weightstream.js");
  await clearCache();
  const found = [], fromCache = [];
  for (let turn = 0; turn < 2; turn++) {
    const loader = await open(url, { inWorker: true, cache: "auto", workers: 0 });
    found.push(JSON.stringify(await all(loader.tensors())));
    fromCache.push(loader.stats.bytesFromCache);
    loader.close();
    const isWhole = (file) => file.url.endsWith(url) && file.cachedBytes >= file.byteLength;
    for (let tries = 0; tries < 400 && !(await listCached()).some(isWhole); tries++) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await new Promise((resolve) => setTimeout(resolve, 300)); // until the worker has ended
  }
  const [{ byteLength, cachedBytes }] = await listCached();
  await clearCache();
  return { same: found[0] === found[1], fromCache, byteLength, isWhole: cachedBytes >= byteLength };
};

// Whether a loader works although its worker may not start. Its statistics say which was the case.
globalThis.without = async (url, source) => {
  globalThis.source = source;
  const found = [], errors = [];
  for (const inWorker of [false, true]) {
    const loader = await open(url, { inWorker, workers: 0 });
    found.push(JSON.stringify(await all(loader.tensors())));
    errors.push(loader.stats.workersError);
    loader.close();
  }
  return { same: found[0] === found[1] && found[0].length > 100, errors: errors.map((error) => error ?? "none") };
};

// The worker as a classic script of a bundler, which imports other scripts: one that works, and one that cannot run.
globalThis.classic = async (url, script) => {
  const { Worker } = globalThis;
  globalThis.Worker = class extends Worker {
    constructor() {
      super(script);
    }
  };
  const onThePage = await open(url, { workers: 0 });
  const wanted = JSON.stringify(await all(onThePage.tensors()));
  const loader = await open(url, { inWorker: true, workers: 2, cache: "auto" });
  const same = JSON.stringify(await all(loader.tensors())) === wanted;
  await new Promise((resolve) => setTimeout(resolve, 500));
  const again = JSON.stringify(await all(loader.tensors())) === wanted;
  const { workersError } = loader.stats;
  loader.close();
  globalThis.Worker = Worker;
  return { same, again, workersError: workersError ?? "none" };
};
