// web-llm, unpatched: it finds the models that `prefill` has put into its caches.
import { BASE, LIBRARY, MODEL, loaded, mlcModel, serverOfModel, tvmjs, urlOf, withGlobalFetch } from "./mlc.js";

const { listCached, clearCache } = await import("/pkg/weightstream.js");
const { prefill } = await import("/pkg/weightstream.tvmjs.js");
const { Failures, RETRY, hex } = await import("/files/common.js");
const webllm = await import("/npm/@mlc-ai/web-llm/lib/index.js");

const RECORD = { model_id: "tiny", model: MODEL, model_lib: LIBRARY };
const CONFIG = { model_list: [RECORD], cacheBackend: "cache" };
const SCOPES = ["webllm/config", "webllm/model", "webllm/wasm"];

const isCached = () => webllm.hasModelInCache("tiny", CONFIG);
const cachedUrls = async (scope) => (await (await caches.open(scope)).keys()).map(({ url }) => url).sort();
const emptied = () => Promise.all([clearCache(), ...SCOPES.map((scope) => caches.delete(scope))]);

// The tensors that the runtime loads out of the cache of web-llm.
const loadedFromCache = () => loaded({ cacheScope: "webllm/model", cacheType: "cache" });

export async function findsTheModel() {
  const failures = new Failures();
  await emptied();
  const model = mlcModel({ shards: 9 });
  const server = serverOfModel(model);
  failures.same("nothing is there", await isCached(), false);
  const events = [];
  await prefill(RECORD, { fetch: server.fetch, onProgress: (event) => events.push(event) });
  failures.same("the model is there", await isCached(), true);
  failures.same("the files", await Promise.all(SCOPES.map(cachedUrls)), [
    [urlOf("mlc-chat-config.json")],
    [...model.shards, "tensor-cache.json", "tokenizer.json"].map(urlOf).sort(),
    [LIBRARY],
  ]);
  failures.same("the progress", events.at(-1), { loaded: 54_000, total: 54_000 });
  const loads = events.map(({ loaded }) => loaded);
  failures.same("it grows", loads.every((loaded, at) => at === 0 || loaded >= loads[at - 1]), true);
  failures.same("nothing is stored twice", await listCached(), []);

  const reference = tvmjs.createArtifactCache("expected", { cacheType: "indexeddb" });
  const expected = await withGlobalFetch(serverOfModel(model), () => loaded({ artifactCache: reference }));
  indexedDB.deleteDatabase("expected");
  failures.same("the tensors", await loadedFromCache(), { ...expected, isFromCache: true });

  const count = server.requests().length;
  await prefill(RECORD, { fetch: server.fetch, onProgress: (event) => events.push(event) });
  failures.same("later requests", server.requests().length - count, 0);
  failures.same("the later progress", events.at(-1), { loaded: 54_000, total: 54_000 });
  await webllm.deleteModelAllInfoInCache("tiny", CONFIG);
  const left = await Promise.all(SCOPES.map(cachedUrls));
  failures.same("what web-llm leaves", left, [[], [urlOf("tensor-cache.json")], []]);
  return failures;
}

// The library of this model is no WebAssembly module, so that the load ends there: with an error of the compiler, if
// the engine has found the configuration and the library. No server has any of these files.
export async function theEngineLoadsWithoutRequests() {
  const failures = new Failures();
  await emptied();
  const load = () => webllm.CreateMLCEngine("tiny", { appConfig: CONFIG, logLevel: "SILENT" });
  await failures.rejects("an empty cache", load(), "TypeError");
  await prefill(RECORD, { fetch: serverOfModel(mlcModel()).fetch });
  await failures.rejects("a full cache", load(), "CompileError");
  return failures;
}

export async function everyFormOfRecord() {
  const failures = new Failures();
  const manifest = { "mlc-model-manifest.json": new TextEncoder().encode("{}") };
  const forms = [
    { model: `${MODEL}/` },
    { model: BASE, model_lib: "http://localhost/tiny.wasm" },
    { model: `${MODEL}/resolve/main`, model_lib: "/tiny.wasm" },
  ];
  for (const form of forms) {
    await emptied();
    await prefill(form, { fetch: serverOfModel(mlcModel()).fetch });
    failures.same(`${form.model}: the model`, await isCached(), true);
    failures.same(`${form.model}: no library`, await cachedUrls("webllm/wasm"), []);
  }
  await emptied();
  const { files, ...others } = mlcModel();
  const server = serverOfModel({ ...others, files: { ...files, ...manifest } });
  await prefill({ ...RECORD, model_manifest: "mlc-model-manifest.json" }, { fetch: server.fetch });
  failures.same("the manifest", await cachedUrls("webllm/config"),
    ["mlc-chat-config.json", "mlc-model-manifest.json"].map(urlOf));
  return failures;
}

export async function credentialsStayAtTheOriginOfTheModel() {
  const failures = new Failures();
  await emptied();
  const model = mlcModel();
  const index = JSON.parse(new TextDecoder().decode(model.files["tensor-cache.json"]));
  index.records[1].dataPath = "https://other.example/params_shard_1.bin";
  model.files["tensor-cache.json"] = new TextEncoder().encode(JSON.stringify(index));
  const server = serverOfModel(model);
  const sent = {};
  const fetch = (url, init) => {
    sent[new URL(url).pathname.split("/").pop()] = new Headers(init.headers).get("Authorization");
    return server.fetch(url, init);
  };
  const library = "https://other.example/tiny.wasm";
  await prefill({ ...RECORD, model_lib: library }, { fetch, headers: { Authorization: "secret" } });
  const names = ["params_shard_0.bin", "tensor-cache.json", "params_shard_1.bin", "tiny.wasm"];
  failures.same("with credentials", names.map((name) => sent[name]), ["secret", "secret", null, null]);
  return failures;
}

export async function brokenConnectionsResume() {
  const failures = new Failures();
  await emptied();
  const model = mlcModel({ shards: 4, bytes: 600_000 });
  let breaks = 0;
  const script = (number) => (number > 0 && number < 4 && ++breaks ? { cutAfter: 100_000 } : {});
  await prefill(RECORD, { fetch: serverOfModel(model, script).fetch, retry: RETRY });
  const cache = await caches.open("webllm/model");
  for (const name of model.shards) {
    const bytes = await (await cache.match(urlOf(name))).arrayBuffer();
    failures.same(name, await hex(bytes), await hex(model.files[name]));
  }
  failures.same("connections that broke", breaks >= 8, true);
  return failures;
}

// A file that fails is not in the cache, and those that were loaded before it need not be loaded again.
export async function failuresAreReportedAndContinued() {
  const failures = new Failures();
  const model = mlcModel({ shards: 6, bytes: 300_000 });
  const last = urlOf("params_shard_5.bin");
  const isLast = (name) => name === "params_shard_5.bin";
  const digests = { [last]: `sha256:${await hex(model.files["params_shard_5.bin"])}` };
  const changed = { ...model, files: { ...model.files, "params_shard_5.bin": new Uint8Array(300_000) } };
  const controller = new AbortController();
  const reason = new Error("the user left");
  const abortAtLast = (_, url, name) => {
    if (isLast(name)) controller.abort(reason);
    return {};
  };
  const cut = (number, url, name) => (isLast(name) && number > 0 ? { cutAfter: 0 } : {});
  const cases = [
    ["a missing file", serverOfModel(model, (_, url, name) => (isLast(name) ? { status: 404 } : {})), {}, "HTTP"],
    ["a wrong digest", serverOfModel(changed), { digests }, "CHECKSUM"],
    ["a lost connection", serverOfModel(model, cut), {}, "NETWORK"],
    ["an abort", serverOfModel(model, abortAtLast), { signal: controller.signal }, "the user left"],
  ];
  for (const [what, server, options, error] of cases) {
    await emptied();
    const retry = { ...RETRY, attempts: 1 };
    await failures.rejects(what, prefill(RECORD, { fetch: server.fetch, retry, ...options }), error);
    const urls = await cachedUrls("webllm/model");
    const found = [last, urlOf("params_shard_0.bin")].map((url) => urls.includes(url));
    failures.same(`${what}: the files`, found, [false, true]);
    failures.same(`${what}: the model`, await isCached(), false);
    const later = serverOfModel(model);
    await prefill(RECORD, { fetch: later.fetch, digests });
    failures.same(`${what}: later`, await isCached(), true);
    failures.same(`${what}: not again`, later.requests("params_shard_0.bin").length, 0);
  }
  return failures;
}

export async function wrongArguments() {
  const failures = new Failures();
  await emptied();
  const model = mlcModel();
  const { fetch } = serverOfModel(model);
  await failures.rejects("no record", prefill(undefined), "INVALID_ARGUMENT", "`model`");
  await failures.rejects("the name of a model", prefill("tiny"), "INVALID_ARGUMENT", "`model_list`");
  await failures.rejects("a library", prefill({ model: MODEL, model_lib: 42 }), "INVALID_ARGUMENT", "`model_lib`");
  await failures.rejects("an unknown option", prefill(RECORD, { fetch, cach: "none" }), "INVALID_ARGUMENT", "`cache`");
  const signal = AbortSignal.abort(new Error("gone"));
  await failures.rejects("an aborted signal", prefill(RECORD, { fetch, signal }), "gone");
  for (const name of ["mlc-chat-config.json", "tensor-cache.json"]) {
    await emptied();
    const page = serverOfModel({ files: { ...model.files, [name]: new TextEncoder().encode("<html>") } });
    await failures.rejects(name, prefill(RECORD, { fetch: page.fetch }), "FORMAT", name);
  }
  await emptied();
  for (const index of [{}, { records: [null] }, { records: [{ dataPath: "a" }] }, { records: [{ nbytes: 1 }] }]) {
    const bytes = new TextEncoder().encode(JSON.stringify(index));
    const { fetch } = serverOfModel({ files: { ...model.files, "tensor-cache.json": bytes } });
    await failures.rejects(JSON.stringify(index), prefill(RECORD, { fetch }), "FORMAT", "records");
    await emptied();
  }
  return failures;
}
