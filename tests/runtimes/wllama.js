// wllama, unpatched: a model whose files come through the package writes what it does from plain files.
import { llamaModel } from "./gguf.js";

const { clearCache } = await import("/pkg/weightstream.js");
const { modelBlobs } = await import("/pkg/weightstream.wllama.js");
const { Failures, RETRY, hex, serverOf, serverOfFiles } = await import("/files/common.js");
const { LoggerWithoutDebug, Wllama } = await import("/npm/@wllama/wllama/esm/index.js");

const WASM = { default: "/npm/@wllama/wllama/esm/wasm/wllama.wasm" };
const LOAD = { n_ctx: 128, n_threads: 1, n_gpu_layers: 0, n_parallel: 1 };
const COMPLETION = { prompt: "hello world", max_tokens: 12, temperature: 0, logprobs: 3, seed: 1 };

// Whether wllama reads files when it needs them. Otherwise it reads each file as a whole.
const readsOnDemand = Boolean(WebAssembly.Suspending);

const silent = { ...LoggerWithoutDebug, log: () => {}, warn: () => {}, error: () => {} };

// What a model writes, and the probabilities of its tokens.
async function output(load) {
  const wllama = new Wllama(WASM, { suppressNativeLog: true, logger: silent });
  try {
    await load(wllama);
    const { choices } = await wllama.createCompletion(COMPLETION);
    return JSON.stringify(choices);
  } finally {
    await wllama.exit();
  }
}

const loaded = (blobs) => output((wllama) => wllama.loadModel(blobs, LOAD));

async function foldersOfStorage() {
  const names = [];
  for await (const name of (await navigator.storage.getDirectory()).keys()) names.push(name);
  return [...names.sort(), ...(await caches.keys())];
}

export async function writesWhatItDoesWithItsOwnLoader() {
  const failures = new Failures();
  const [file] = llamaModel();
  const ordinaryFetch = globalThis.fetch;
  const own = serverOf(file);
  globalThis.fetch = (url, init) =>
    String(url).endsWith("/model.gguf") ? own.fetch(url, init) : ordinaryFetch.call(globalThis, url, init);
  let expected;
  try {
    const url = new URL("/model.gguf", location.href).href;
    expected = await output(async (wllama) => {
      await wllama.loadModelFromUrl(url, LOAD);
      await wllama.cacheManager.clear();
    });
  } finally {
    globalThis.fetch = ordinaryFetch;
  }
  const [{ text, logprobs }] = JSON.parse(expected);
  failures.same("it writes something", [text.length > 0, logprobs !== null], [true, true]);
  const other = await loaded(llamaModel({ seed: 2 }).map((bytes) => new Blob([bytes])));
  failures.same("other weights write something else", other === expected, false);
  const before = await foldersOfStorage();

  const server = serverOf(file);
  const blobs = await modelBlobs("/model.gguf", { fetch: server.fetch, cache: "none" });
  failures.same("an array of Blobs", [Array.isArray(blobs), blobs.length, blobs[0] instanceof Blob, blobs[0].size],
    [true, 1, true, file.length]);
  failures.same("the same output", await loaded(blobs), expected);
  failures.same("nothing is stored", await foldersOfStorage(), before);
  blobs.close();
  return failures;
}

// wllama reads the beginning of a file twice, and then 1 MiB at a time or whole tensors, which overlap.
export async function requestsEachByteOnce() {
  const failures = new Failures();
  const [file] = llamaModel({ width: 128, layers: 4 });
  const expected = await loaded([new Blob([file])]);
  const server = serverOf(file);
  const blobs = await modelBlobs("/model.gguf", { fetch: server.fetch, cache: "none" });
  failures.same("the same output", await loaded(blobs), expected);
  const limit = readsOnDemand ? file.length + 65_536 : file.length + 3 * 65_536;
  failures.same(`bytes sent (${server.sent()} of ${file.length})`, server.sent() <= limit, true);
  blobs.close();
  return failures;
}

export async function splitModels() {
  const failures = new Failures();
  const [one, two, three] = llamaModel({ width: 128, layers: 4, count: 3 });
  const expected = await loaded([one, two, three].map((bytes) => new Blob([bytes])));
  const name = (number) => `/m-0000${number}-of-00003.gguf`;
  const files = { [name(1)]: one, [name(2)]: two, [name(3)]: three };
  for (const urls of [name(1), [1, 2, 3].map((number) => new URL(name(number), location.href))]) {
    const server = serverOfFiles(files);
    const blobs = await modelBlobs(urls, { fetch: server.fetch, cache: "none" });
    failures.same("sizes", blobs.map(({ size }) => size), [one, two, three].map(({ length }) => length));
    failures.same("the same output", await loaded(blobs), expected);
    blobs.close();
  }
  return failures;
}

// weightstream has written the files, from a GGUF model and through APR: see e2e/src/llama_model.rs.
export async function modelsThatWeightstreamWrites() {
  const failures = new Failures();
  const original = await (await fetch("/llama/original.gguf")).blob();
  const expected = await loaded([original]);
  for (const [name, count] of [["whole.gguf", 1], ["split-00001-of-00003.gguf", 3]]) {
    const blobs = await modelBlobs(`/llama/${name}`, { cache: "none" });
    failures.same(`${name}: files`, blobs.length, count);
    failures.same(`${name}: the same output`, await loaded(blobs), expected);
    blobs.close();
  }
  return failures;
}

export async function brokenConnectionsResume() {
  const failures = new Failures();
  const [file] = llamaModel({ width: 128, layers: 4 });
  const expected = await loaded([new Blob([file])]);
  let breaks = 0;
  const server = serverOf(file, (number) => (number > 0 && breaks++ < 5 ? { cutAfter: 100_000 } : {}));
  const blobs = await modelBlobs("/model.gguf", { fetch: server.fetch, cache: "none", retry: RETRY });
  failures.same("the same output", await loaded(blobs), expected);
  failures.same("connections that broke", breaks >= 5, true);
  blobs.close();
  return failures;
}

export async function aSecondLoadComesFromTheCache() {
  const failures = new Failures();
  await clearCache();
  const [file] = llamaModel({ width: 128, layers: 4 });
  const cold = await modelBlobs("/model.gguf", { fetch: serverOf(file).fetch });
  const expected = await loaded(cold);
  cold.close();
  const server = serverOf(file);
  const warm = await modelBlobs("/model.gguf", { fetch: server.fetch });
  failures.same("the same output", await loaded(warm), expected);
  // One byte may be requested, to check that the file is unchanged.
  failures.same("requests and bytes", [server.requests.length <= 1, server.sent() <= 1], [true, true]);
  warm.close();
  await clearCache();
  return failures;
}

export async function closedFiles() {
  const failures = new Failures();
  const [file] = llamaModel();
  const server = serverOf(file);
  const blobs = await modelBlobs("/model.gguf", { fetch: server.fetch, cache: "none" });
  blobs.close();
  blobs.close();
  await failures.rejects("a read", blobs[0].slice(0, 10).arrayBuffer(), "CLOSED");
  await failures.rejects("wllama", loaded(blobs), "closed");
  const disposed = await modelBlobs("/model.gguf", { fetch: server.fetch, cache: "none" });
  disposed[Symbol.dispose ?? Symbol.for("Symbol.dispose")]();
  await failures.rejects("after it is disposed", disposed[0].arrayBuffer(), "CLOSED");
  return failures;
}

export async function closingStopsALoad() {
  const failures = new Failures();
  const [file] = llamaModel({ width: 128, layers: 4 });
  const server = serverOf(file, (number) => {
    if (number === 2) blobs.close();
    return {};
  });
  const blobs = await modelBlobs("/model.gguf", { fetch: server.fetch, cache: "none", maxMemory: 0 });
  await failures.rejects("wllama", loaded(blobs), "closed");
  return failures;
}

export async function failedReads() {
  const failures = new Failures();
  const [file] = llamaModel({ width: 128, layers: 4 });
  const server = serverOf(file, (number) => (number > 1 ? { status: 403 } : {}));
  const blobs = await modelBlobs("/model.gguf", { fetch: server.fetch, cache: "none", retry: RETRY });
  await failures.rejects("wllama", loaded(blobs), "403", readsOnDemand ? "RuntimeError: File read failed" : "HTTP");
  blobs.close();
  return failures;
}

export async function errors() {
  const failures = new Failures();
  const [file] = llamaModel();
  const name = (number) => `/m-0000${number}-of-00002.gguf`;
  const script = (_, url) => (url.includes("2-of") ? { status: 404 } : {});
  const missing = serverOfFiles({ [name(1)]: file, [name(2)]: file }, script);
  const options = { fetch: missing.fetch, cache: "none", retry: RETRY };
  await failures.rejects("a missing file", modelBlobs(name(1), options), "HTTP", "404", "00002-of-00002");
  const chunked = serverOf(file, () => ({ isChunked: true }));
  await failures.rejects("an unknown length", modelBlobs("/model.gguf", { fetch: chunked.fetch, cache: "none" }),
    "UNSUPPORTED");
  const reason = new Error("the user left");
  const signal = AbortSignal.abort(reason);
  await failures.rejects("an abort", modelBlobs(name(1), { ...options, signal }), "the user left");
  const controller = new AbortController();
  const never = () => new Promise(() => queueMicrotask(() => controller.abort(reason)));
  await failures.rejects("an abort during a request",
    modelBlobs(name(1), { ...options, fetch: never, signal: controller.signal }), "the user left");
  await failures.rejects("no URL", modelBlobs(42, options), "INVALID_ARGUMENT");
  await failures.rejects("no URLs", modelBlobs([], options), "INVALID_ARGUMENT");
  await failures.rejects("a list with something else", modelBlobs([name(1), {}], options), "INVALID_ARGUMENT");
  await failures.rejects("a wrong option", modelBlobs(name(1), { cach: "none" }), "INVALID_ARGUMENT", "`cache`");
  const digest = `sha256:${await hex(file)}`;
  await failures.rejects("a digest", modelBlobs(name(1), { ...options, digest }), "INVALID_ARGUMENT", "`digest`");
  await failures.rejects("too many", modelBlobs("/m-00001-of-99999.gguf", options), "INVALID_ARGUMENT", "1024");
  return failures;
}
