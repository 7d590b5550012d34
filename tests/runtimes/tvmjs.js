// The TVM runtime, unpatched: the tensors that it loads through the package are those of its own loader.
import { BASE, loaded, mlcModel, runtime, serverOfModel, tvmjs, urlOf, withGlobalFetch } from "./mlc.js";

const { StreamingLoader, clearCache, listCached } = await import("/pkg/weightstream.js");
const { ArtifactCache, ModelArtifacts } = await import("/pkg/weightstream.tvmjs.js");
const { Failures, RETRY, hex } = await import("/files/common.js");

// What the runtime has with its own cache in IndexedDB. Its other caches do not take the script of the server.
async function expectedOf(model) {
  const server = serverOfModel(model);
  const scope = `expected ${crypto.randomUUID()}`;
  const { result } = await withGlobalFetch(server, () =>
    loaded({ artifactCache: tvmjs.createArtifactCache(scope, { cacheType: "indexeddb" }) }));
  indexedDB.deleteDatabase(scope);
  return result;
}

const artifactCacheOf = (server, options) => new ArtifactCache({ fetch: server.fetch, retry: RETRY, ...options });

export async function loadsTheSameTensors() {
  const failures = new Failures();
  await clearCache();
  const model = mlcModel({ shards: 9 });
  const expected = await expectedOf(model);
  failures.same("it loads something", JSON.parse(expected)[0].length, 18);
  const different = mlcModel({ shards: 9 });
  different.files["params_shard_8.bin"][5999] ^= 1;
  failures.same("other weights are something else", (await expectedOf(different)) === expected, false);
  const server = serverOfModel(model);
  const first = await loaded({ artifactCache: artifactCacheOf(server) });
  failures.same("the same", first.result === expected, true);
  failures.same("the first load downloads", first.isFromCache, false);
  failures.same("no byte is sent twice", server.sent() <= sizeOf(model) + server.requests().length, true);
  return failures;
}

// A model that is open gives the runtime what its files do.
export async function openModels() {
  const failures = new Failures();
  const model = mlcModel({ shards: 9 });
  const expected = JSON.parse(await expectedOf(model));
  const files = ["tensor-cache.json", ...model.shards].map((name) => new File([model.files[name]], name));
  const loader = await StreamingLoader.open(files);
  const artifactCache = new ModelArtifacts(loader);
  const { result, isFromCache } = await loaded({ artifactCache });
  failures.same("the same", JSON.parse(result), expected);
  failures.same("nothing is downloaded in advance", isFromCache, true);
  failures.same("all files", await tvmjs.hasTensorInCache(BASE, { artifactCache }), true);
  failures.same("another file", await artifactCache.hasAllKeys([urlOf("params_shard_99.bin")]), false);

  const whole = await loaded({ artifactCache: new ModelArtifacts(loader, { bfloat16: true }) });
  const [tensors] = JSON.parse(whole.result);
  const formats = new Set(tensors.map(({ dtype, format }) => `${dtype} ${format}`));
  failures.same("bfloat16", [...formats].sort(), ["bfloat16 raw", "uint32 raw"]);

  const shard = urlOf("params_shard_0.bin");
  await artifactCache.addToCache(shard, "arraybuffer");
  const index = await artifactCache.fetchWithCache(urlOf("tensor-cache.json"), "json");
  index.records[0].records[0].byteOffset = 8; // the caller's own
  const bytes = await artifactCache.fetchWithCache(shard, "arraybuffer");
  failures.same("bytes", bytes.byteLength, model.shards.reduce((sum, name) => sum + model.files[name].length, 0));

  const controller = new AbortController();
  const stopped = { artifactCache: new ModelArtifacts(loader), signal: controller.signal };
  const { tvm } = runtime();
  tvm.initProgressCallback = [() => controller.abort(new Error("the user left"))];
  await failures.rejects("a load that is stopped", tvm.fetchTensorCache(BASE, tvm.cpu(), stopped), "the user left");
  const { signal } = controller;
  const unwanted = artifactCache.fetchWithCache(urlOf("tensor-cache.json"), "json", signal);
  await failures.rejects("an index that is not wanted", unwanted, "the user left");
  await failures.rejects("addToCache", artifactCache.addToCache(shard, "arraybuffer", signal), "the user left");
  await failures.rejects("no file", artifactCache.fetchWithCache(urlOf("other.bin"), "arraybuffer"), "NOT_FOUND");
  await failures.rejects("no file", artifactCache.addToCache(urlOf("other.bin"), "arraybuffer"), "NOT_FOUND");
  await failures.rejects("JSON of bytes", artifactCache.fetchWithCache(shard, "json"), "INVALID_ARGUMENT", '"json"');
  await failures.rejects("no type", artifactCache.fetchWithCache(shard), "INVALID_ARGUMENT", "storetype");
  await failures.rejects("deleting", tvmjs.deleteTensorCache(BASE, { artifactCache }), "UNSUPPORTED");
  const thrown = async (call) => call();
  await failures.rejects("no model", thrown(() => new ModelArtifacts({})), "INVALID_ARGUMENT", "StreamingLoader");
  await failures.rejects("an option", thrown(() => new ModelArtifacts(loader, { bf16: true })), "INVALID_ARGUMENT");
  loader.close();
  await failures.rejects("closed", artifactCache.fetchWithCache(shard, "arraybuffer"), "CLOSED");
  return failures;
}

// Tensors up to 32 MiB are in one file, and a larger one is in a file of its own.
export async function filesOfOpenModels() {
  const failures = new Failures();
  const mebibytes = [20, 20, 10, 3, 40, 1];
  const header = {};
  let end = 0;
  mebibytes.forEach((size, at) => {
    const start = end;
    header[`t${at}`] = { dtype: "U8", shape: [size << 20], data_offsets: [start, (end += size << 20)] };
  });
  header.empty = { dtype: "F32", shape: [0, 4], data_offsets: [end, end] };
  const text = new TextEncoder().encode(JSON.stringify(header));
  const data = new Uint8Array(end);
  data.forEach((_, at) => (at % 4099 === 0 ? (data[at] = (at / 4099) & 255) : 0));
  const source = new File([BigUint64Array.of(BigInt(text.length)), text, data], "a.safetensors");
  const artifactCache = new ModelArtifacts(await StreamingLoader.open(source));
  const { records } = await artifactCache.fetchWithCache(urlOf("tensor-cache.json"), "json");
  const sizes = records.map(({ records }) => records.map(({ nbytes }) => nbytes / (1 << 20)));
  failures.same("files", sizes, [[20], [20, 10], [3], [40], [1, 0]]);
  let at = 0;
  for (const { dataPath, nbytes } of records) {
    const bytes = await artifactCache.fetchWithCache(urlOf(dataPath), "arraybuffer");
    failures.same(dataPath, await hex(new Uint8Array(bytes)), await hex(data.subarray(at, (at += nbytes))));
  }
  const four = '{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}';
  const unknown = new File([BigUint64Array.of(BigInt(four.length)), four, "x"], "b.safetensors");
  const other = new ModelArtifacts(await StreamingLoader.open(unknown));
  await failures.rejects("F4", other.hasAllKeys([]), "UNSUPPORTED", "F4");
  return failures;
}

const sizeOf = ({ files, shards }) =>
  ["tensor-cache.json", ...shards].reduce((sum, name) => sum + files[name].length, 0);

export async function aSecondLoadComesFromTheCache() {
  const failures = new Failures();
  await clearCache();
  const model = mlcModel();
  const first = await loaded({ artifactCache: artifactCacheOf(serverOfModel(model)) });
  const server = serverOfModel(model);
  const second = await loaded({ artifactCache: artifactCacheOf(server) });
  failures.same("the same", second, { ...first, isFromCache: true });
  // One byte may be requested of each file, to check that it is unchanged.
  failures.same("requests and bytes", [server.requests().length <= 4, server.sent() <= 4], [true, true]);
  const offline = { ...server, fetch: () => Promise.reject(new TypeError("offline")) };
  failures.same("offline", await loaded({ artifactCache: artifactCacheOf(offline) }), second);
  return failures;
}

// Calls every method as the runtime does, and the functions of the runtime that take an artifact cache.
async function results(artifactCache, model) {
  const [json, shard] = ["tensor-cache.json", "params_shard_0.bin"].map(urlOf);
  const shards = model.shards.map(urlOf);
  const options = { artifactCache };
  const found = [
    await artifactCache.hasAllKeys([]),
    await artifactCache.hasAllKeys([json, shard]),
    await tvmjs.hasTensorInCache(BASE, options),
    await artifactCache.addToCache(json, "json"),
    await artifactCache.addToCache(shard, "arraybuffer"),
    await artifactCache.addToCache(shard, "arraybuffer"),
    await artifactCache.hasAllKeys([json, shard]),
    await tvmjs.hasTensorInCache(BASE, options),
    await artifactCache.fetchWithCache(json, "json"),
    Object.prototype.toString.call(await artifactCache.fetchWithCache(shard, "arraybuffer")),
    await hex(await artifactCache.fetchWithCache(shard, "arraybuffer")),
    await hex(await artifactCache.fetchWithCache(shards[1], "arraybuffer", new AbortController().signal)),
    await artifactCache.deleteInCache(shard),
    await artifactCache.deleteInCache(shard),
    await artifactCache.hasAllKeys([shard]),
    await artifactCache.hasAllKeys([json]),
    (await loaded(options)).result,
    await tvmjs.hasTensorInCache(BASE, options),
    await artifactCache.hasAllKeys(shards),
    await tvmjs.deleteTensorCache(BASE, options),
    await tvmjs.hasTensorInCache(BASE, options),
    ...(await Promise.all(shards.map((url) => artifactCache.hasAllKeys([url])))),
  ];
  return found.map((value) => value ?? "nothing");
}

export async function givesTheResultsOfTheCachesOfTheRuntime() {
  const failures = new Failures();
  await clearCache();
  const model = mlcModel();
  const scope = `reference ${crypto.randomUUID()}`;
  const expected = {};
  for (const cacheType of ["indexeddb", "opfs"]) {
    const artifactCache = tvmjs.createArtifactCache(scope, { cacheType });
    expected[cacheType] = await withGlobalFetch(serverOfModel(model), () => results(artifactCache, model));
  }
  for (const [name, cache] of [["its cache", "auto"], ["a Map", new Map()]]) {
    const found = await results(artifactCacheOf(serverOfModel(model), { cache }), model);
    failures.same(`${name}, and IndexedDB`, found, expected.indexeddb);
    failures.same(`${name}, and OPFS`, found, expected.opfs);
  }
  return failures;
}

export async function responses() {
  const failures = new Failures();
  await clearCache();
  const model = mlcModel();
  const artifactCache = artifactCacheOf(serverOfModel(model));
  const response = await artifactCache.fetchWithCache(urlOf("tensor-cache.json"));
  failures.same("a Response", [response instanceof Response, response.status, response.url],
    [true, 200, urlOf("tensor-cache.json")]);
  failures.same("its JSON", (await response.json()).records.length, 3);
  const { records } = await artifactCache.fetchWithCache(urlOf("tensor-cache.json"), "JSON");
  failures.same("upper case", records.length, 3);
  for (const storetype of ["blob", "constructor"]) {
    const wrong = artifactCache.fetchWithCache(urlOf("tensor-cache.json"), storetype);
    await failures.rejects(storetype, wrong, "INVALID_ARGUMENT", storetype);
  }
  return failures;
}

export async function brokenConnectionsResume() {
  const failures = new Failures();
  await clearCache();
  const model = mlcModel({ shards: 4, bytes: 600_000 });
  const expected = await expectedOf(model);
  let breaks = 0;
  const server = serverOfModel(model, (number) => (number > 0 && number < 4 && ++breaks ? { cutAfter: 100_000 } : {}));
  failures.same("the same", (await loaded({ artifactCache: artifactCacheOf(server) })).result === expected, true);
  failures.same("connections that broke", breaks >= 8, true);
  failures.same(`bytes sent (${server.sent()} of ${sizeOf(model)})`, server.sent() < sizeOf(model) * 1.1, true);
  return failures;
}

export async function whatCannotBeCachedIsNotDownloadedTwice() {
  const failures = new Failures();
  await clearCache();
  const model = mlcModel({ shards: 8 });
  const expected = await expectedOf(model);
  const none = serverOfModel(model);
  const withoutCache = artifactCacheOf(none, { cache: "none" });
  failures.same("without a cache", (await loaded({ artifactCache: withoutCache })).result === expected, true);
  failures.same("requests", none.requests().length, 9);
  failures.same("nothing is there", await withoutCache.hasAllKeys([urlOf("tensor-cache.json")]), false);
  await withoutCache.deleteInCache(urlOf("tensor-cache.json"));

  const server = serverOfModel(model);
  const fetch = async (url, init) => {
    const { body, status, headers } = await server.fetch(url, init);
    const others = new Headers(headers);
    others.delete("ETag");
    return new Response(body, { status, headers: others });
  };
  const result = await loaded({ artifactCache: artifactCacheOf({ fetch }) });
  failures.same("of a server without validators", result.result === expected, true);
  // Up to four shards are downloaded at once, until it is known that they cannot be cached.
  failures.same(`requests (${server.requests().length})`, server.requests().length <= 9 + 4, true);
  return failures;
}

export async function namesAndCredentials() {
  const failures = new Failures();
  await clearCache();
  const model = mlcModel();
  const server = serverOfModel(model);
  const origins = [new URL(urlOf("")).origin];
  const withToken = (token) => artifactCacheOf(server, { headers: { Authorization: token }, origins });
  const shard = urlOf("params_shard_0.bin");
  await withToken("one").addToCache(shard, "arraybuffer");
  const found = await Promise.all([withToken("one"), withToken("two"), artifactCacheOf(server)]
    .map((artifactCache) => artifactCache.hasAllKeys([shard])));
  failures.same("only with the same credentials", found, [true, false, false]);

  const cacheKey = (url) => url.split("?")[0].toUpperCase();
  await artifactCacheOf(server, { cacheKey }).addToCache(`${shard}?token=1`, "arraybuffer");
  failures.same("its name", (await listCached()).some(({ url }) => url === shard.toUpperCase()), true);
  const named = artifactCacheOf(server, { cacheKey });
  failures.same("a name", await named.hasAllKeys([`${shard}?token=2`]), true);
  await named.deleteInCache(`${shard}?token=3`);
  failures.same("it is deleted", await named.hasAllKeys([shard]), false);
  return failures;
}

export async function aborts() {
  const failures = new Failures();
  await clearCache();
  const model = mlcModel({ bytes: 600_000 });
  const reason = new Error("the user left");
  const controller = new AbortController();
  const server = serverOfModel(model, (number, url, name) => {
    if (name === "params_shard_1.bin") controller.abort(reason);
    return {};
  });
  const options = { artifactCache: artifactCacheOf(server), signal: controller.signal };
  await failures.rejects("the load", loaded(options), "the user left");
  failures.same("the rest is not requested", server.requests("params_shard_2.bin").length, 0);
  await failures.rejects("a later load", loaded(options), "the user left");
  const artifactCache = artifactCacheOf(serverOfModel(model));
  await failures.rejects("addToCache",
    artifactCache.addToCache(urlOf("params_shard_2.bin"), "arraybuffer", controller.signal), "the user left");
  failures.same("not cached", await artifactCache.hasAllKeys([urlOf("params_shard_2.bin")]), false);
  return failures;
}

export async function errors() {
  const failures = new Failures();
  await clearCache();
  const model = mlcModel();
  const missing = serverOfModel(model, (number, url, name) => (name === "params_shard_1.bin" ? { status: 404 } : {}));
  await failures.rejects("a missing shard", loaded({ artifactCache: artifactCacheOf(missing) }), "HTTP", "404",
    "params_shard_1.bin");
  const { tvm, messages } = runtime();
  await tvm.fetchTensorCache(BASE, tvm.cpu(), { artifactCache: artifactCacheOf(missing) }).catch(() => {});
  failures.same("nothing is loaded", messages.some((text) => text.startsWith("Loading")), false);

  const page = { ...model, files: { ...model.files, "tensor-cache.json": new TextEncoder().encode("<html>") } };
  await clearCache();
  await failures.rejects("no JSON", loaded({ artifactCache: artifactCacheOf(serverOfModel(page)) }), "FORMAT", "JSON");

  await clearCache();
  const digests = { [urlOf("params_shard_2.bin")]: `sha256:${await hex(model.files["params_shard_2.bin"])}` };
  await loaded({ artifactCache: artifactCacheOf(serverOfModel(model), { digests }) });
  const changed = { ...model, files: { ...model.files, "params_shard_2.bin": new Uint8Array(6000) } };
  await clearCache();
  await failures.rejects("a wrong digest",
    loaded({ artifactCache: artifactCacheOf(serverOfModel(changed), { digests }) }), "CHECKSUM", "params_shard_2.bin");
  const { result } = await loaded({ artifactCache: artifactCacheOf(serverOfModel(model), { digests }) });
  failures.same("the right file later", result === (await expectedOf(model)), true);
  return failures;
}

export async function wrongArguments() {
  const failures = new Failures();
  const rejects = (what, call, ...wanted) =>
    failures.rejects(what, (async () => call())(), "INVALID_ARGUMENT", ...wanted);
  await rejects("an unknown option", () => new ArtifactCache({ cach: "none" }), "`cache`");
  await rejects("a signal", () => new ArtifactCache({ signal: AbortSignal.abort() }), "`signal`");
  await rejects("no object", () => new ArtifactCache("webllm/model"), "ArtifactCache");
  await rejects("a wrong digest", () => new ArtifactCache({ digests: { "/a": "md5:00" } }), "digests[\"/a\"]");
  const artifactCache = new ArtifactCache({ cache: "none" });
  await rejects("a store type", () => artifactCache.fetchWithCache(urlOf("a"), "text"), "`storetype`");
  await rejects("a store type", () => artifactCache.addToCache(urlOf("a"), "text"), "`storetype`");
  await rejects("no URL", () => artifactCache.fetchWithCache(42, "json"), "`url`");
  await rejects("no list", () => artifactCache.hasAllKeys(urlOf("a")), "`keys`");
  await rejects("a list with something else", () => artifactCache.hasAllKeys([42]), "`keys`");
  await rejects("nothing to delete", () => artifactCache.deleteInCache(), "`url`");
  return failures;
}
