// The first use of the package in a page: the head of the model is requested while the module is loaded. Each test has
// a frame of its own, and therefore a module of its own.
import { Failures, clearCache } from "./common.js";
import { safetensors } from "./safetensors.js";

const MODEL = safetensors({ a: 100_000, b: 200_000 });

// A frame whose `fetch` answers requests for the model, and holds those for the module until `release` is called.
async function frame(answer) {
  const element = document.body.appendChild(document.createElement("iframe"));
  const page = element.contentWindow;
  const { fetch } = page;
  const requests = [];
  let release;
  const released = new Promise((resolve) => (release = resolve));
  page.fetch = async (input, init) => {
    const url = String(input);
    if (/\.wasm/.test(url)) await released;
    if (!url.endsWith("/m.safetensors")) return fetch.call(page, input, init);
    const range = new Headers(init.headers).get("Range");
    requests.push({ range, init });
    return answer(range, init);
  };
  const { StreamingLoader } = await page.eval('import("/pkg/weightstream.js")');
  const until = async (count) => {
    while (requests.length < count) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  return { page, StreamingLoader, requests, release, until, remove: () => element.remove() };
}

function answer(range) {
  const [, start, last] = /bytes=(\d+)-(\d+)/.exec(range);
  const body = MODEL.slice(Number(start), Number(last) + 1);
  const headers = { "Content-Range": `bytes ${start}-${Number(start) + body.byteLength - 1}/${MODEL.byteLength}` };
  return new Response(body, { status: 206, headers: { ...headers, "Content-Length": body.byteLength } });
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
  for (const [what, isMissing] of [["a worker", false], ["a worker whose script is missing", true]]) {
    const { page, StreamingLoader, release, remove } = await frame(answer);
    const workers = countWorkers(page, (url) => (isMissing ? "/missing.js" : url));
    const opening = StreamingLoader.open(URL_OF_MODEL, { workers: 0 });
    while (workers.count === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await new Promise((resolve) => setTimeout(resolve, 200)); // until the missing script is answered
    release();
    const loader = await opening;
    // A worker that does not start is started once more.
    failures.same(what, workers.count, isMissing ? 2 : 1);
    failures.same(`${what}: the error`, /the cache worker failed/.test(loader.stats.cacheError ?? ""), isMissing);
    failures.same(`${what}: the tensor`, (await loader.loadTensor("b")).data.byteLength, 200_000);
    loader.close();
    remove();
  }
  await clearCache();
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
