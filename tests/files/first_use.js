// The first use of the package in a page: the head of the model is requested while the module is loaded. Each test has
// a frame of its own, and therefore a module of its own.
import { Failures } from "./common.js";
import { safetensors } from "./safetensors.js";

const MODEL = safetensors({ a: 100_000, b: 200_000 });

// A frame whose `fetch` answers requests for the model, and holds those for the module until `release` is called, and
// those for the code of the cache until `releaseCache` is called.
async function frame(answer) {
  const element = document.body.appendChild(document.createElement("iframe"));
  const page = element.contentWindow;
  const { fetch } = page;
  const requests = [];
  const { promise: released, resolve: release } = Promise.withResolvers();
  const { promise: isCacheReleased, resolve: releaseCache } = Promise.withResolvers();
  page.fetch = async (input, init) => {
    const url = String(input);
    if (/_cache\.wasm/.test(url)) await isCacheReleased;
    else if (/\.wasm/.test(url)) await released;
    if (!/\/m\.(safetensors|zt)(#|$)/.test(url)) return fetch.call(page, input, init);
    const range = new Headers(init.headers).get("Range");
    requests.push({ range, init });
    return answer(range, init);
  };
  const { StreamingLoader, clearCache, listCached } = await page.eval('import("/pkg/weightstream.js")');
  const until = async (count) => {
    while (requests.length < count) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  const workers = [];
  page.Worker = class extends page.Worker {
    constructor(...given) {
      super(...given);
      workers.push(this);
    }
  };
  const remove = () => {
    workers.forEach((worker) => worker.terminate()); // WebKitGTK may keep them, and what they have open, for long
    element.remove();
  };
  return { page, StreamingLoader, clearCache, listCached, requests, release, releaseCache, until, remove };
}

// Whether there is a storage that can be emptied. WebKitGTK has only IndexedDB in these tests, and 2 of 8 runs did not
// end there, probably because a page that was removed keeps its database open, which then is not deleted.
const canEmptyStorage = globalThis.navigator?.storage?.getDirectory !== undefined;

// Deletes all files and databases of the origin, as before a first visit. No page may use them at the same time.
async function emptyStorage() {
  if (!canEmptyStorage) return;
  const root = await navigator.storage.getDirectory();
  for await (const name of root.keys()) await untilReleased(() => root.removeEntry(name, { recursive: true }));
  for (const { name } of await indexedDB.databases()) {
    await new Promise((resolve) => (indexedDB.deleteDatabase(name).onsuccess = resolve));
  }
}

// Repeats a call while workers that were terminated still have files open.
async function untilReleased(call) {
  for (let attempts = 0; ; attempts++) {
    try {
      return await call();
    } catch (error) {
      if (error.name !== "NoModificationAllowedError" || attempts === 100) throw error;
      await pause(50);
    }
  }
}

// Leaves an empty cache behind, which must be asked.
async function createStorage() {
  await emptyStorage();
  const { StreamingLoader, clearCache, release, releaseCache, remove } = await frame(answer);
  [release, releaseCache].forEach((now) => now());
  (await StreamingLoader.open(URL_OF_MODEL)).close();
  await clearCache();
  remove();
}

// The lengths of all tensors, by name.
async function lengthsOf(loader) {
  const lengths = {};
  for await (const { name, data } of loader.tensors()) lengths[name] = data.byteLength;
  return lengths;
}

const pause = (delayMs) => new Promise((resolve) => setTimeout(resolve, delayMs));

const answer = answerWith(MODEL);

function answerWith(model) {
  return (range) => {
    const [, first, last] = /bytes=(\d*)-(\d+)/.exec(range);
    const start = first === "" ? model.byteLength - Number(last) : Number(first);
    const body = model.slice(start, first === "" ? undefined : Number(last) + 1);
    const headers = { "Content-Range": `bytes ${start}-${start + body.byteLength - 1}/${model.byteLength}` };
    return new Response(body, { status: 206, headers: { ...headers, "Content-Length": body.byteLength, ETag: '"1"' } });
  };
}

const URL_OF_MODEL = `${location.origin}/m.safetensors`;

export async function theHeadIsRequestedWhileTheModuleIsLoaded() {
  const failures = new Failures();
  const { StreamingLoader, requests, release, until, remove } = await frame(answer);
  const options = { cache: "none", headers: { "X-Token": "1" }, credentials: "include" };
  const opening = StreamingLoader.open(URL_OF_MODEL, options);
  await until(1);
  release();
  const loader = await opening;
  failures.same("one request for the head", requests.map(({ range }) => range), ["bytes=0-65535"]);
  const { headers, credentials, cache } = requests[0].init;
  failures.same("its options", [headers.get("X-Token"), credentials, cache], ["1", "include", "no-store"]);
  failures.same("the tensor", (await loader.loadTensor("b")).data.byteLength, 200_000);
  failures.same("the requests are counted", loader.stats.requests, requests.length);
  loader.close();

  const before = requests.length;
  (await StreamingLoader.open(URL_OF_MODEL, options)).close();
  failures.same("one request once the module is loaded", requests.length - before, 1);
  remove();
  return failures;
}

export async function theIndexOfAZtensorFileIsRequestedWithItsHead() {
  const failures = new Failures();
  const model = await (await fetch("/fixtures/ztensor/zt212_canonical.zt")).arrayBuffer();
  const part = answerWith(model);
  let isAborted = false;
  const whole = (range, { signal }) => {
    if (!range.startsWith("bytes=-")) return part(range);
    signal.addEventListener("abort", () => (isAborted = true));
    return new Response(model);
  };
  for (const [what, answer, expected] of [["parts", part, 2], ["a server that sends the whole file", whole, 3]]) {
    const { StreamingLoader, requests, release, until, remove } = await frame(answer);
    const opening = StreamingLoader.open(`${location.origin}/m.zt`, { cache: "none" });
    await until(2);
    release();
    const loader = await opening;
    const tensors = await loader.loadIndex();
    failures.same(what, requests.map(({ range }) => range).slice(0, 2), ["bytes=0-65535", "bytes=-65536"]);
    failures.same(`${what}: the requests`, [requests.length, loader.stats.requests], [expected, 2]);
    failures.same(`${what}: an index`, tensors.length > 0, true);
    loader.close();
    remove();
  }
  failures.same("the whole file is not received", isAborted, true);
  return failures;
}

// Of another origin, only a range with a start needs no preflight request.
export async function theUrlMayStateTheLengthOfAZtensorFile() {
  const failures = new Failures();
  const small = new Uint8Array(await (await fetch("/fixtures/ztensor/zt212_canonical.zt")).arrayBuffer());
  const model = new Uint8Array(small.length + 200_000);
  model.set(small.subarray(0, 8));
  model.set(small.subarray(8), model.length - small.length + 8);
  const { length } = model;
  const end = `bytes=${length - 65_536}-${length - 1}`;
  const cases = [["#length=", length, [end]], ["#length=", length - 1, [`bytes=${length - 65_537}-${length - 2}`, end]],
    ["", "", [end]]];
  for (const [key, stated, expected] of cases) {
    const { StreamingLoader, requests, release, until, remove } = await frame(answerWith(model));
    const opening = StreamingLoader.open(`https://models.example/m.zt${key}${stated}`, { cache: "none" });
    await until(key ? 2 : 1);
    release();
    (await opening.catch(() => undefined))?.close(); // the offsets in its index are those of the small file
    failures.same(`${key}${stated}`, requests.map(({ range }) => range).slice(0, 1 + expected.length), [
      "bytes=0-65535", ...expected,
    ]);
    remove();
  }
  return failures;
}

export async function aHeadThatFailsIsRequestedAgain() {
  const failures = new Failures();
  let count = 0;
  const { StreamingLoader, requests, release, until, remove } = await frame((range) => {
    if (count++ === 0) throw new TypeError("Failed to fetch");
    return answer(range);
  });
  const opening = StreamingLoader.open(URL_OF_MODEL, { cache: "none", retry: { baseDelay: 1 } });
  await until(1);
  release();
  failures.same("the list", (await (await opening).loadIndex()).map(({ name }) => name), ["a", "b"]);
  failures.same("the requests", requests.length, 2);
  remove();
  return failures;
}

export async function aSignalEndsTheRequest() {
  const failures = new Failures();
  const answers = [];
  const { StreamingLoader, requests, release, until, remove } = await frame((range, { signal }) =>
    new Promise((_, reject) => signal.addEventListener("abort", () => {
      answers.push("aborted");
      reject(signal.reason);
    })));
  const controller = new AbortController();
  const opening = StreamingLoader.open(URL_OF_MODEL, { cache: "none", signal: controller.signal });
  await until(1);
  release();
  controller.abort(new Error("no longer needed"));
  failures.same("the reason", await opening.catch(({ message }) => message), "no longer needed");
  failures.same("the request", answers, ["aborted"]);
  failures.same("the requests", requests.length, 1);
  remove();
  return failures;
}

export async function aModuleThatCannotStartEndsTheRequest() {
  const failures = new Failures();
  let isAborted = false;
  const { page, StreamingLoader, release, until, remove } = await frame((range, { signal }) =>
    new Promise(() => signal.addEventListener("abort", () => (isAborted = true))));
  page.WebAssembly.compileStreaming = page.WebAssembly.instantiateStreaming = page.WebAssembly.instantiate = () =>
    Promise.reject(new Error("no memory"));
  const opening = StreamingLoader.open(URL_OF_MODEL, { cache: "none" });
  await until(1);
  release();
  failures.same("the error", await opening.catch(({ code }) => code), "INTERNAL");
  failures.same("the request was aborted", isAborted, true);
  remove();
  return failures;
}

export async function nothingIsRequestedEarlyIfTheModelMayBeCached() {
  const failures = new Failures();
  const cache = { get: async () => undefined, set: async () => {}, delete: async () => {}, keys: async () => [] };
  for (const [what, source, options] of [
    ["a cache of the caller", URL_OF_MODEL, { cache }],
    ["a file", new Blob([MODEL]), {}],
  ]) {
    const { StreamingLoader, requests, release, remove } = await frame(answer);
    const opening = StreamingLoader.open(source, options);
    await new Promise((resolve) => setTimeout(resolve, 100));
    failures.same(what, requests.length, 0);
    release();
    (await opening).close();
    remove();
  }
  return failures;
}

// Counts the workers of a page, and replaces the URLs of their scripts.
function countWorkers(page, urlOf) {
  const counted = { count: 0 };
  page.Worker = class extends page.Worker {
    constructor(url, options) {
      super(urlOf(url), options);
      counted.count++;
    }
  };
  return counted;
}

export async function theWorkerOfTheCacheStartsWhileTheModuleIsLoaded() {
  const failures = new Failures();
  await createStorage();
  for (const [what, isMissing] of [["a worker", false], ["a worker whose script is missing", true]]) {
    const { page, StreamingLoader, release, releaseCache, remove } = await frame(answer);
    releaseCache();
    const workers = countWorkers(page, (url) => (isMissing ? "/missing.js" : url));
    const opening = StreamingLoader.open(URL_OF_MODEL, { workers: 0 });
    while (workers.count === 0) await pause(5);
    await pause(200); // until the missing script is answered
    release();
    const loader = await opening;
    // A worker that does not start is started once more.
    failures.same(what, workers.count, isMissing ? 2 : 1);
    failures.same(`${what}: the error`, /the cache worker failed/.test(loader.stats.cacheError ?? ""), isMissing);
    failures.same(`${what}: the tensor`, (await loader.loadTensor("b")).data.byteLength, 200_000);
    loader.close();
    remove();
  }
  await emptyStorage();
  return failures;
}

// Loads a model whose cache opens only after its first tensor, and then again from the cache.
export async function theFirstTensorDoesNotWaitForTheCache() {
  const failures = new Failures();
  if (!canEmptyStorage) return failures;
  await emptyStorage();
  const first = await frame(answer);
  const workers = countWorkers(first.page, (url) => url);
  const opening = first.StreamingLoader.open(URL_OF_MODEL, { workers: 0 });
  await first.until(1);
  failures.same("nothing of the cache starts before the module", workers.count, 0);
  first.release();
  const loader = await opening;
  failures.same("the tensor", (await loader.loadTensor("b")).data.byteLength, 200_000);
  failures.same("no worker without the code of the cache", workers.count, 0);
  first.releaseCache();
  const listed = await first.listCached();
  failures.same("the list has what came before", listed.map(({ url }) => url), [URL_OF_MODEL]);
  failures.same("a worker", workers.count, 1);
  failures.same("no error", loader.stats.cacheError, undefined);
  failures.same("a tensor that the cache has not", (await loader.loadTensor("a")).data.byteLength, 100_000);
  failures.same("a tensor that the cache has", (await loader.loadTensor("b")).data.byteLength, 200_000);
  failures.same("the bytes of the cache", loader.stats.bytesFromCache > 0, true);
  loader.close();
  await first.listCached();
  first.remove();
  await readsFromTheCache(failures, answer, { a: 100_000, b: 200_000 });
  return failures;
}

export async function aCacheThatOpensLateMissesNothing() {
  const failures = new Failures();
  if (!canEmptyStorage) return failures;
  const lengths = { a: 100_000, b: 12_000_000, c: 3_000_000 }; // more than the copies that wait for the cache
  const large = answerWith(safetensors(lengths));
  for (const concurrency of [1, 4]) {
    await emptyStorage();
    const { StreamingLoader, listCached, release, releaseCache, remove } = await frame(large);
    release();
    const loader = await StreamingLoader.open(URL_OF_MODEL, { workers: 0, concurrency });
    setTimeout(releaseCache, 300);
    failures.same("the tensors", await lengthsOf(loader), lengths);
    loader.close();
    await listCached();
    remove();
    await readsFromTheCache(failures, large, lengths);
  }
  return failures;
}

// Loads the model in a new page, which may request only one byte.
async function readsFromTheCache(failures, answer, lengths) {
  const { StreamingLoader, requests, release, releaseCache, remove } = await frame(answer);
  [release, releaseCache].forEach((now) => now());
  const loader = await StreamingLoader.open(URL_OF_MODEL, { workers: 0 });
  failures.same("the tensors from the cache", await lengthsOf(loader), lengths);
  failures.same("the requests", requests.map(({ range }) => range), ["bytes=0-0"]);
  loader.close();
  remove();
}

export async function aCacheThatCannotOpenIsReportedLater() {
  const failures = new Failures();
  if (!canEmptyStorage) return failures;
  await emptyStorage();
  const { page, StreamingLoader, listCached, release, releaseCache, remove } = await frame(answer);
  countWorkers(page, () => "/missing.js");
  release();
  const loader = await StreamingLoader.open(URL_OF_MODEL, { workers: 0 });
  failures.same("the tensor", (await loader.loadTensor("b")).data.byteLength, 200_000);
  failures.same("no error yet", loader.stats.cacheError, undefined);
  releaseCache();
  // Another worker is tried for the list, so that it does not wait for what this page is writing.
  let listed = await listCached();
  for (let i = 0; i < 100 && listed.length === 0; i++) {
    await pause(50);
    listed = await listCached();
  }
  const { cacheError = "" } = loader.stats;
  failures.same("the error", /the cache worker failed.*IndexedDB instead/.test(cacheError), true);
  failures.same("IndexedDB has it instead", listed.map(({ url }) => url), [URL_OF_MODEL]);
  loader.close();
  remove();
  await emptyStorage();
  return failures;
}

// Two pages that open a model at once before either has a cache.
export async function twoPagesDownloadAModelOnce() {
  const failures = new Failures();
  if (!canEmptyStorage) return failures;
  await emptyStorage();
  const lengths = { a: 100_000, b: 12_000_000 };
  const pages = await Promise.all([0, 1].map(() => frame(answerWith(safetensors(lengths)))));
  const loads = pages.map(async ({ StreamingLoader, release, releaseCache }) => {
    [release, releaseCache].forEach((now) => now());
    const loader = await StreamingLoader.open(URL_OF_MODEL, { workers: 0 });
    const loaded = await lengthsOf(loader);
    const { bytesReceived } = loader.stats;
    loader.close();
    return { loaded, bytesReceived };
  });
  const results = await Promise.all(loads);
  for (const { loaded } of results) failures.same("the tensors", loaded, lengths);
  const received = results.reduce((sum, { bytesReceived }) => sum + bytesReceived, 0);
  failures.same(`at most 1.1 of the model is received (${received})`, received < 1.1 * 12_100_000, true);
  for (const { listCached } of pages) await listCached();
  pages.forEach(({ remove }) => remove());
  await emptyStorage();
  return failures;
}

export async function noWorkerStartsWithoutACache() {
  const failures = new Failures();
  for (const [what, source, options] of [
    ["no cache", URL_OF_MODEL, { cache: "none" }],
    ["a file", new Blob([MODEL]), {}],
  ]) {
    const { page, StreamingLoader, release, remove } = await frame(answer);
    const workers = countWorkers(page, (url) => url);
    const opening = StreamingLoader.open(source, { ...options, workers: 0 });
    release();
    (await opening).close();
    failures.same(what, workers.count, 0);
    remove();
  }
  return failures;
}
