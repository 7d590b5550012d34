// Files and models at several addresses. The servers are functions, one for each origin.
import { Failures, RETRY, clearCache, content, hex, openFile, serverOf } from "./common.js";
import { safetensors } from "./safetensors.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");

const FILE = content(1_500_000);
const FIRST = "https://first.test/m", MIRROR = "https://mirror.test/copy", OTHER = "https://other.test/copy";
const options = (fetch) => ({ fetch, mirrors: [MIRROR], retry: RETRY, cache: "none" });

// The `fetch` of several servers, by their origins, and what each was asked. A server may be a function, such as one
// that never answers.
function network(servers) {
  const asked = {};
  const fetch = (url, init) => {
    const { origin } = new URL(url);
    (asked[origin] ??= []).push(new Headers(init.headers));
    const server = servers[origin];
    return (server.fetch ?? server)(url, init);
  };
  return { fetch, asked, count: (url) => asked[new URL(url).origin]?.length ?? 0 };
}

const origin = (url) => new URL(url).origin;
const refused = () => Promise.reject(new TypeError("refused"));
const silent = (_url, { signal }) =>
  new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
const changed = (bytes) => bytes.map((byte, at) => (at < 70_000 ? byte : byte ^ 1));

export async function readsFromMirrorIfFirstAddressIsDead() {
  const failures = new Failures();
  for (const dead of [refused, silent]) {
    const { fetch, count } = network({ [origin(FIRST)]: dead, [origin(MIRROR)]: serverOf(FILE) });
    const file = await openFile(FIRST, options(fetch));
    failures.same("bytes", await hex(await file.bytes()), await hex(FILE));
    const [first, mirror] = file.stats.mirrors;
    failures.same("urls", [first.url, mirror.url], [FIRST, MIRROR]);
    failures.same("failures", [typeof first.failure, mirror.failure], ["string", undefined]);
    failures.same("bytes of the mirror", mirror.byteLength >= FILE.length, true);
    failures.same("requests to the dead address", count(FIRST) <= 2, true);
    file.close();
  }
  return failures;
}

export async function refusesMirrorWithOtherBytes() {
  const failures = new Failures();
  const bad = serverOf(changed(FILE)), good = serverOf(FILE);
  const first = serverOf(FILE, (number) => (number === 1 ? { cutAfter: 300_000 } : {}));
  const { fetch } = network({ [origin(FIRST)]: first, [origin(MIRROR)]: bad, [origin(OTHER)]: good });
  const file = await openFile(FIRST, { ...options(fetch), mirrors: [MIRROR, OTHER] });
  failures.same("bytes", await hex(await file.bytes()), await hex(FILE));
  const failure = file.stats.mirrors[1].failure ?? "";
  failures.same(`the failure names the bytes: ${failure}`, failure.includes("differ"), true);
  failures.same("the other mirror works", [good.sent() > 0, file.stats.mirrors[2].failure], [true, undefined]);
  file.close();
  return failures;
}

export async function sendsNoTokenToMirror() {
  const failures = new Failures();
  const { fetch, asked } = network({ [origin(FIRST)]: refused, [origin(MIRROR)]: serverOf(FILE) });
  const file = await openFile(FIRST, { ...options(fetch), headers: { Authorization: "Bearer s3cret", "X-Key": "k" } });
  await file.bytes();
  const tokens = (url) => [...new Set(asked[origin(url)].map((headers) => headers.get("Authorization")))];
  failures.same("the first address", tokens(FIRST), ["Bearer s3cret"]);
  failures.same("the mirror", [tokens(MIRROR), asked[origin(MIRROR)].some((headers) => headers.has("X-Key"))], [[
    null,
  ], false]);
  file.close();
  return failures;
}

export async function findsFilesOfModelRelativeToMirror() {
  const failures = new Failures();
  const names = ["a", "b"].map((name) => `model-${name}.safetensors`);
  const shards = names.map((name) => safetensors({ [name[6]]: 200_000 }));
  const map = { weight_map: { a: names[0], b: names[1] } };
  const index = new TextEncoder().encode(JSON.stringify(map));
  const urls = [];
  const mirror = (url, init) => {
    urls.push(new URL(url).pathname);
    const at = names.findIndex((name) => url.endsWith(name));
    return serverOf(at < 0 ? index : shards[at]).fetch(url, init);
  };
  const { fetch } = network({ [origin(FIRST)]: refused, [origin(MIRROR)]: mirror });
  const mirrors = ["https://mirror.test/copies/model.safetensors.index.json"];
  const loader = await StreamingLoader.open("https://first.test/models/model.safetensors.index.json", {
    ...options(fetch), mirrors,
  });
  for (const name of ["a", "b"]) failures.same(name, (await loader.loadTensor(name)).data.byteLength, 200_000);
  failures.same("folder", urls.every((url) => url.startsWith("/copies/")), true);
  failures.same("the first address", typeof loader.stats.mirrors[0].failure, "string");
  loader.close();
  return failures;
}

export async function cachesUnderFirstAddress() {
  const failures = new Failures();
  await clearCache();
  const first = serverOf(FILE, (number) => (number === 1 ? { cutAfter: 300_000 } : {}));
  const mirror = serverOf(FILE, () => ({ validators: { ETag: '"other"' } }));
  const { fetch } = network({ [origin(FIRST)]: first, [origin(MIRROR)]: mirror });
  const url = `${FIRST}?${crypto.randomUUID()}`;
  for (const visit of [1, 2]) {
    const file = await openFile(url, { fetch, mirrors: [MIRROR], retry: RETRY });
    failures.same(`visit ${visit}`, await hex(await file.bytes()), await hex(FILE));
    const { bytesFromCache, cacheError } = file.stats;
    if (visit === 2 && cacheError === undefined) failures.same("from the cache", bytesFromCache, FILE.length);
    file.close();
    await new Promise((resolve) => setTimeout(resolve, 100)); // until the cache has stored it
  }
  failures.same("the mirror was used", mirror.sent() > 0, true);
  await clearCache();
  return failures;
}

export async function settlesWhenAllAddressesAreSilent() {
  const failures = new Failures();
  const { fetch } = network({ [origin(FIRST)]: silent, [origin(MIRROR)]: silent });
  const stop = new AbortController(), reason = new Error("enough");
  const opening = openFile(FIRST, { ...options(fetch), signal: stop.signal });
  setTimeout(() => stop.abort(reason), 1_300);
  failures.same("aborted", await opening.then(() => "opened", (error) => error === reason), true);
  await failures.rejects("stalled", openFile(FIRST, { ...options(fetch), retry: { attempts: 0, stallTimeout: 1500 } }),
    "NETWORK");
  return failures;
}

export async function closesDuringRace() {
  const failures = new Failures();
  let isAborted = false;
  const hanging = (url, init) => {
    init.signal.addEventListener("abort", () => (isAborted = true));
    return silent(url, init);
  };
  const first = serverOf(FILE, (number) => (number > 0 ? { cutAfter: 300_000 } : {}));
  const { fetch } = network({ [origin(FIRST)]: first, [origin(MIRROR)]: hanging });
  const file = await openFile(FIRST, options(fetch));
  const reading = file.bytes();
  const pause = (delay) => new Promise((resolve) => setTimeout(resolve, delay));
  while (!first.requests[1] || first.requests[1].sent < 300_000) await pause(20);
  await pause(100);
  file.close();
  await failures.rejects("closed", reading, "CLOSED");
  await pause(50);
  failures.same("the request is aborted", isAborted, true);
  return failures;
}

export async function mirrorsNeedUrl() {
  const failures = new Failures();
  await failures.rejects("a Blob", openFile(new Blob([FILE]), { mirrors: [MIRROR] }), "INVALID_ARGUMENT", "mirrors");
  await failures.rejects("no URL", openFile(FIRST, { mirrors: ["hf:a/b"] }), "INVALID_ARGUMENT", "mirrors[0]");
  return failures;
}
