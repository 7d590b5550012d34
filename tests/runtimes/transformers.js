// transformers.js, unpatched: models whose files come through the package compute what they do with its own loader.
import { COLUMNS, ROWS, linearGraph } from "./graph.js";
import {
  AutoModel, DEFAULTS, FILES, MODEL_BYTES, ModelRegistry, TASK, byFile, connected, embeddings, env, lastTotal, newName,
  onnxRuntime, own, pick, recorder, settings,
} from "./transformers_loads.js";

const { clearCache, openFile } = await import("/pkg/weightstream.js");
const { externalData } = await import("/pkg/weightstream.onnxruntime.js");
const { connect } = await import("/pkg/weightstream.transformers.js");
const { Failures, RETRY, serverOf } = await import("/files/common.js");

export async function computesWhatItDoesWithItsOwnLoader() {
  const failures = new Failures();
  const expected = await own();
  failures.same("embeddings", [expected.count, expected.stored.length >= FILES.length], [2 * 384, true]);
  const { fetch, requests } = recorder();
  const found = await connected({ fetch }, () => embeddings());
  failures.same("the same embeddings", found.values, expected.values);
  failures.same("without a callback", (await connected({ fetch }, () => embeddings({ isSilent: true }))).values,
    expected.values);
  const urls = requests.map(({ url }) => url);
  failures.same("its files", FILES.filter((file) => !urls.some((url) => url.endsWith(`/${file}`))), []);
  failures.same("nothing is stored by transformers.js", await caches.keys(), []);
  return failures;
}

export async function onnxRuntimeComesThroughIt() {
  const failures = new Failures();
  const urls = await onnxRuntime();
  const names = urls.map((url) => url.split("/").pop()).filter((name) => name.startsWith("ort-wasm"));
  failures.same("its files", [...new Set(names)].sort(), ["ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"]);
  return failures;
}

export async function progressIsThatOfTransformers() {
  const failures = new Failures();
  const expected = await own();
  const found = await connected({}, () => embeddings());
  failures.same("events of each file", byFile(found.events), byFile(expected.events));
  failures.same("the total", lastTotal(found.events), lastTotal(expected.events));
  const names = (events) => [...new Set(events.map(({ status }) => status))].sort();
  failures.same("kinds of events", names(found.events), names(expected.events));
  const loaded = found.events.filter(({ status, file }) => status === "progress" && file === "onnx/model.onnx");
  failures.same("progress in steps", loaded.length > 10, true);
  return failures;
}

// transformers.js asks for the first byte of each file before it loads it.
export async function probesCostNoSecondDownload() {
  const failures = new Failures();
  const { fetch, requests, received } = recorder();
  await connected({ fetch }, () => embeddings());
  const config = requests.filter(({ url }) => url.endsWith("/tokenizer.json")).length;
  failures.same("requests of a file", config, 2); // its first 64 KiB, which answer the probe, and the rest
  failures.same("bytes of the weights", received("onnx/model.onnx"), MODEL_BYTES);
  const tokenizer = (await globalThis.fetch("/hub/minilm/resolve/main/tokenizer.json")).headers.get("Content-Length");
  failures.same("bytes of the tokenizer", received("tokenizer.json"), Number(tokenizer));
  return failures;
}

export async function brokenConnectionsResume() {
  const failures = new Failures();
  const expected = await own();
  const breaks = [];
  const { fetch, received } = recorder((number, { url }) => {
    const isWeights = url.endsWith("model.onnx");
    if (number % 2 === 0 && !isWeights) return {};
    if (breaks.length >= 12) return {};
    breaks.push(url);
    return { cutAfter: isWeights ? 3_000_000 : 100 };
  });
  const found = await connected({ fetch }, () => embeddings());
  failures.same("the same embeddings", found.values, expected.values);
  failures.same("the last numbers", lastTotal(found.events), lastTotal(expected.events));
  failures.same("connections that broke", breaks.length, 12);
  failures.same("bytes of the weights", received("onnx/model.onnx") <= MODEL_BYTES + 200_000, true);
  return failures;
}

export async function aSecondLoadComesFromTheCache() {
  const failures = new Failures();
  await clearCache();
  const expected = await own();
  const cold = await connected({ cache: "auto" }, () => embeddings());
  failures.same("cold", cold.values, expected.values);
  const { fetch, requests } = recorder();
  const warm = await connected({ fetch, cache: "auto" }, () => embeddings());
  failures.same("warm", warm.values, expected.values);
  failures.same("its events", byFile(warm.events), byFile(expected.events));
  const received = requests.reduce((sum, request) => sum + request.received, 0);
  // One byte of each file may be requested, each time it is opened, to check that it is unchanged.
  failures.same(`bytes received (${received})`, received <= requests.length, true);
  const offline = () => Promise.reject(new TypeError("network error"));
  await isOffline(async () => {
    const found = await connected({ fetch: offline, cache: "auto" }, () => embeddings());
    failures.same("offline", found.values, expected.values);
  });
  await clearCache();
  return failures;
}

// `ModelRegistry` asks the `customCache` of `env`.
export async function theRegistryKnowsWhatIsCached() {
  const failures = new Failures();
  await clearCache();
  const name = newName();
  const { fetch, requests } = recorder();
  const whileCached = (ask) => connected({ fetch, cache: "auto" }, ask);
  const ask = () => whileCached(() => ModelRegistry.is_pipeline_cached(TASK, name, { dtype: "fp32" }));
  failures.same("before", await ask(), false);
  const cold = await whileCached(() => embeddings({ name }));
  const isCached = (url) => FILES.some((file) => url.endsWith(`/${file}`));
  const count = requests.length;
  failures.same("after", await ask(), true);
  failures.same("another model, whose files have the same URLs", await whileCached(() =>
    ModelRegistry.is_cached(newName(), { dtype: "fp32" })), true);
  // It reads config.json to know which files there are, and asks the server whether that file is unchanged.
  const asked = requests.slice(count).filter(({ url }) => isCached(url));
  failures.same("requests of cached files", asked.map(({ url, received }) => [url.split("/").pop(), received]),
    [["config.json", 1]]);
  const warm = await whileCached(() => embeddings({ name, isSilent: true }));
  failures.same("the same embeddings", warm.values, cold.values);
  const cleared = await whileCached(() => ModelRegistry.clear_pipeline_cache(TASK, name, { dtype: "fp32" }));
  failures.same("deleted", [cleared.filesDeleted, cleared.filesCached], [FILES.length, FILES.length]);
  failures.same("after it", await ask(), false);
  failures.same("without a cache", await connected({ cache: "none" }, () =>
    ModelRegistry.is_cached(name, { dtype: "fp32" })), false);
  await clearCache();
  return failures;
}

async function isOffline(use) {
  Object.defineProperty(navigator, "onLine", { value: false, configurable: true });
  try {
    await use();
  } finally {
    delete navigator.onLine;
  }
}

// Their URLs are relative to the page.
export async function localModels() {
  const failures = new Failures();
  const expected = await own();
  const { allowLocalModels, allowRemoteModels, localModelPath } = env;
  Object.assign(env, { allowLocalModels: true, allowRemoteModels: false, localModelPath: "/hub/minilm/" });
  const { fetch, requests, received } = recorder();
  const found = await connected({ fetch }, () => embeddings({ name: "resolve/main" }));
  Object.assign(env, { allowLocalModels, allowRemoteModels, localModelPath });
  failures.same("the same embeddings", found.values, expected.values);
  failures.same("files", FILES.filter((file) => !requests.some(({ url }) => url.endsWith(`/${file}`))), []);
  const twice = received("onnx/model.onnx") - MODEL_BYTES;
  failures.same(`bytes of the weights that were received twice (${twice})`, twice <= 65_536, true);
  return failures;
}

export async function missingFiles() {
  const failures = new Failures();
  const described = ({ name, message, status }) => `${name} ${status}: ${message}`;
  const load = () => embeddings().then(() => "no error", described);
  for (const status of [404, 403, 500]) {
    const { fetch } = recorder((_, { url }) => (url.endsWith("model.onnx") ? { status } : {}));
    env.fetch = fetch;
    const expected = await load();
    env.fetch = DEFAULTS.fetch;
    await caches.delete(env.cacheKey);
    failures.same(`${status} (${expected})`, expected.includes("occurred") || expected.includes(` ${status}: `), true);
    failures.same(`the same error for ${status}`, await connected({ fetch }, load), expected);
  }
  const broken = recorder((_, { url }) => (url.endsWith("model.onnx") ? { cutAfter: 0 } : {}));
  await failures.rejects("a lost connection", connected({ fetch: broken.fetch }, () => embeddings()), "NETWORK");
  return failures;
}

export async function aborts() {
  const failures = new Failures();
  const reason = new Error("the user left");
  const controller = new AbortController();
  const { fetch } = recorder((_, { url, range }) => {
    if (url.endsWith("model.onnx") && !range?.startsWith("bytes=0-")) queueMicrotask(() => controller.abort(reason));
    return {};
  });
  const { signal } = controller;
  await failures.rejects("a load", connected({ fetch, signal }, () => embeddings()), "the user left");
  await failures.rejects("a later load", connected({ fetch, signal }, () => embeddings()), "the user left");
  failures.same("loads again", (await connected({}, () => embeddings())).values, (await own()).values);
  return failures;
}

// A model whose weights are in a file of their own.
async function withExternalData(options, files) {
  const config = { model_type: "bert", ...options.config };
  const servers = { "config.json": new TextEncoder().encode(JSON.stringify(config)), ...files };
  const requested = [];
  const fetch = (url, init) => {
    const name = Object.keys(servers).find((name) => String(url).endsWith(`/${name}`));
    requested.push(name);
    return name ? serverOf(servers[name]).fetch(url, init) : Promise.resolve(new Response(null, { status: 404 }));
  };
  const model = await connected({ fetch }, () =>
    AutoModel.from_pretrained(newName(), { dtype: "fp32", ...options }));
  const x = Float32Array.from({ length: ROWS }, (_, at) => Math.sin(at));
  const [session] = Object.values(model.sessions);
  const { Tensor } = await import("onnxruntime-common");
  const { y } = await session.run({ x: new Tensor("float32", x, [1, ROWS]) });
  await model.dispose();
  return { values: Array.from(y.data), requested };
}

export async function weightsInAFileOfTheirOwn() {
  const failures = new Failures();
  const weights = Float32Array.from({ length: (ROWS + 1) * COLUMNS }, (_, at) => Math.cos(at * at));
  const data = new Uint8Array(weights.buffer);
  const [offset, length] = [ROWS * COLUMNS * 4, COLUMNS * 4];
  const graph = linearGraph("model.onnx_data", { offset: 0, length: offset }, { offset, length });
  const x = Array.from({ length: ROWS }, (_, at) => Math.fround(Math.sin(at)));
  const expected = Array.from({ length: COLUMNS }, (_, column) =>
    x.reduce((sum, value, row) => sum + value * weights[row * COLUMNS + column], weights[ROWS * COLUMNS + column]));
  const isClose = (values) => values.every((value, at) => Math.abs(value - expected[at]) < 1e-2);

  const files = { "onnx/model.onnx": graph, "onnx/model.onnx_data": data };
  const own = await withExternalData({ use_external_data_format: true }, files);
  failures.same("use_external_data_format", [own.values.length, isClose(own.values)], [COLUMNS, true]);
  failures.same("it is loaded", own.requested.includes("onnx/model.onnx_data"), true);

  const { fetch } = serverOf(data, (number) => (number > 0 && number < 4 ? { cutAfter: 300_000 } : {}));
  const remote = await openFile("/weights.bin", { fetch, cache: "none", retry: RETRY });
  const session_options = { externalData: await externalData(remote, "model.onnx_data") };
  const lazy = await withExternalData({ session_options }, { "onnx/model.onnx": graph });
  failures.same("a lazy Blob", lazy.values, own.values);
  remote.close();
  await failures.rejects("a closed file",
    withExternalData({ session_options }, { "onnx/model.onnx": graph }), "closed");
  return failures;
}

export async function settingsAreRestored() {
  const failures = new Failures();
  const before = settings();
  failures.same("before", env.useBrowserCache, true);
  env.useCustomCache = true;
  const ownCache = (env.customCache = { match: async () => undefined, put: async () => {} });
  const disconnect = connect(env);
  const { fetch, ...caches } = pick(env);
  failures.same("connected", [fetch === DEFAULTS.fetch, Object.values(caches)], [false, [false, true, false, false]]);
  const disconnectAgain = connect(env, { cache: "none" });
  failures.same("connected again", env.fetch === fetch, false);
  disconnect(); // has no effect: the second call replaced the first
  failures.same("still connected", [env.fetch === DEFAULTS.fetch, env.useBrowserCache], [false, false]);
  disconnectAgain();
  failures.same("restored", [env.useCustomCache, env.customCache === ownCache], [true, true]);
  env.useCustomCache = false;
  env.customCache = null;
  failures.same("the others", settings(), before);
  disconnectAgain();
  disconnect();
  failures.same("twice", settings(), before);

  const disconnectLast = connect(env);
  const ownFetch = (...call) => DEFAULTS.fetch(...call);
  env.fetch = ownFetch;
  disconnectLast();
  failures.same("what the app changed since then", env.fetch === ownFetch, true);
  env.fetch = DEFAULTS.fetch;
  failures.same("restored again", settings(), before);
  return failures;
}

export async function ownFetchIsUsed() {
  const failures = new Failures();
  const seen = [];
  env.fetch = (url, init) => (seen.push(String(url)), DEFAULTS.fetch(url, init));
  const disconnect = connect(env, { cache: "none" });
  const config = await (await env.fetch("/hub/minilm/resolve/main/config.json")).json();
  failures.same("the file", config.model_type, "bert");
  failures.same("requests", seen.length, 1);
  disconnect();
  env.fetch = DEFAULTS.fetch;
  return failures;
}

export async function wrongArguments() {
  const failures = new Failures();
  const before = settings();
  const attempt = async (...call) => connect(...call);
  await failures.rejects("no env", attempt(), "INVALID_ARGUMENT", "`env`");
  await failures.rejects("another env", attempt({ backends: {} }), "INVALID_ARGUMENT", "`env`");
  await failures.rejects("an unknown option", attempt(env, { cach: "none" }), "INVALID_ARGUMENT", "`cache`");
  await failures.rejects("a digest", attempt(env, { digest: "sha256:00" }), "INVALID_ARGUMENT", "`digest`");
  await failures.rejects("no signal", attempt(env, { signal: 1 }), "INVALID_ARGUMENT", "`signal`");
  await failures.rejects("no options", attempt(env, null), "INVALID_ARGUMENT");
  failures.same("nothing is changed", settings(), before);
  return failures;
}
