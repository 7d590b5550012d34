// `willFit`, and whether the cache is persistent.
import { Failures, clearCache, openFile, serverOf } from "./common.js";
import { safetensors } from "./safetensors.js";

const { StreamingLoader, listCached, willFit } = await import("/pkg/weightstream.js");

const LENGTHS = { a: 1_000_000, b: 3_000_000 };
const MODEL = safetensors(LENGTHS);
const TOTAL = 4_000_000;
const HEADER_BYTES = 64 << 10;

// Replaces a property of the browser while a function runs.
async function withProperty(object, name, value, run) {
  if (!object) return undefined;
  Object.defineProperty(object, name, { value, configurable: true });
  try {
    return await run();
  } finally {
    delete object[name];
  }
}

export async function lengths() {
  const failures = new Failures();
  const server = serverOf(MODEL);
  const fit = await willFit("/m.safetensors", { fetch: server.fetch, cache: "none", inWorker: true });
  failures.same("payload", fit.byteLength, TOTAL);
  failures.same("memory", [fit.memory.needed, fit.memory.largest], [TOTAL, LENGTHS.b]);
  failures.same("nothing is cached", [fit.storage.needed, fit.storage.fits], [0, true]);
  failures.same("only the header is read", [server.requests.length, server.sent() <= HEADER_BYTES], [1, true]);
  const compressed = await willFit("/rows/own.apr", { cache: "none" });
  failures.same("compressed", compressed.byteLength < compressed.memory.needed, true);
  const local = await willFit(new Blob([MODEL]));
  failures.same("a local file", [local.byteLength, local.storage.needed], [TOTAL, 0]);
  await failures.rejects("a Response", willFit(new Response(MODEL)), "INVALID_ARGUMENT", "pass its URL");
  await failures.rejects("a wrong option", willFit("/m.safetensors", { chache: 1 }), "`chache`");
  return failures;
}

export async function storage() {
  const failures = new Failures();
  const { storage } = navigator;
  const url = "/rows/m.safetensors";
  await clearCache();
  const cold = await willFit(url);
  const isCold = cold.storage.needed <= cold.byteLength && cold.storage.needed >= cold.byteLength - 4 * HEADER_BYTES;
  failures.same(`cold: ${JSON.stringify(cold)}`, isCold, true);
  const loader = await StreamingLoader.open(url);
  for await (const _ of loader.tensors());
  loader.close();
  await listCached(); // resolves after all earlier writes
  const { cacheError } = loader.stats;
  const warm = await willFit(url);
  if (!cacheError) failures.same(`warm: ${JSON.stringify(warm)}`, [warm.storage.needed, warm.storage.fits], [0, true]);
  const others = await willFit(url, { headers: { "X-Key": "1" } });
  failures.same("with credentials", others.storage.needed, others.byteLength);
  const own = await willFit("/rows/own.zt", { cache: new Map() });
  failures.same("own storage", [own.storage.needed, own.storage.available], [own.byteLength, undefined]);

  if (!storage) failures.same("unknown storage", [cold.storage.available, cold.storage.fits], [undefined, undefined]);
  for (const [quota, fits] of [[1e6, false], [1e9, true]]) {
    const estimate = async () => ({ quota, usage: 1000 });
    const fit = await withProperty(storage, "estimate", estimate, () => willFit(url, { headers: { "X-Key": "2" } }));
    if (fit) failures.same(`a quota of ${quota}`, [fit.storage.available, fit.storage.fits], [quota - 1000, fits]);
  }
  await clearCache();
  return failures;
}

export async function memory() {
  const failures = new Failures();
  const fitOf = (gib, lengths) => {
    const run = () => willFit("/m", { fetch: hugeServer(lengths), cache: "none" });
    return withProperty(navigator, "deviceMemory", gib, run);
  };
  const { memory } = await fitOf(4, { a: 1000 });
  failures.same("a small model", memory, { needed: 1000, largest: 1000, limit: 4 * 2 ** 30, fits: true });
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [i, 100 * 2 ** 20]));
  failures.same("more than the device has", (await fitOf(4, many)).memory.fits, false);
  failures.same("more than the browser reports", (await fitOf(8, many)).memory.fits, undefined);
  failures.same("a browser that reports nothing", (await fitOf(undefined, many)).memory.fits, undefined);
  const huge = await fitOf(8, { a: 2 ** 50 });
  failures.same("no such buffer", [huge.byteLength, huge.memory.fits], [2 ** 50, false]);
  return failures;
}

// A server of a model of any size, which sends only the header.
function hugeServer(lengths) {
  let at = 0;
  const tensors = Object.entries(lengths).map(([name, length]) => {
    return [name, { dtype: "U8", shape: [length], data_offsets: [at, (at += length)] }];
  });
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(tensors)));
  const file = new Uint8Array(HEADER_BYTES);
  new DataView(file.buffer).setBigUint64(0, BigInt(json.length), true);
  file.set(json, 8);
  const total = 8 + json.length + at;
  return async (_, { headers }) => {
    const [, first, last] = /bytes=(\d+)-(\d+)/.exec(new Headers(headers).get("Range"));
    const end = Math.min(Number(last) + 1, file.length, total);
    const range = `bytes ${first}-${end - 1}/${total}`;
    return new Response(file.slice(Number(first), end), { status: 206, headers: { "Content-Range": range } });
  };
}

export async function persistence() {
  const failures = new Failures();
  const url = "/fixtures/safetensors/basic.safetensors";
  const now = await navigator.storage?.persisted?.().catch(() => undefined);
  failures.same("willFit", (await willFit(url)).persisted, now);
  for (const isPersisted of [true, false]) {
    await withProperty(navigator.storage, "persisted", async () => isPersisted, async () => {
      failures.same("willFit", (await willFit(url)).persisted, isPersisted);
      for (const [options, wanted] of [[{}, isPersisted], [{ inWorker: true }, isPersisted], [{ cache: "none" }]]) {
        const what = `${JSON.stringify(options)}, ${isPersisted}`;
        const loader = await StreamingLoader.open(url, options);
        failures.same(what, loader.stats.cachePersisted, wanted);
        loader.close();
      }
      const file = await openFile(url);
      failures.same("openFile", file.stats.cachePersisted, isPersisted);
      const local = await StreamingLoader.open(new Blob([MODEL]));
      failures.same("a local file", local.stats.cachePersisted, undefined);
    });
  }
  return failures;
}
