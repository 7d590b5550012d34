// A load that is closed, aborted, returned or garbage-collected stops at once and frees its memory.
import { Faults, open, outcome, pause, safetensors, slowFetch } from "./common.js";

const file = safetensors(64, 1 << 20);

async function stopped(faults, what, stop, options) {
  const fetch = slowFetch(file, 2);
  const loader = await open("/slow", { fetch, maxMemory: 2 << 20, ...options });
  const controller = new AbortController();
  const iterator = loader.tensors({ signal: controller.signal });
  await iterator.next();
  const before = fetch.requests.length;
  await stop({ loader, controller, iterator });
  await pause(20);
  const sent = () => fetch.requests.reduce((sum, request) => sum + request.sent, 0);
  const then = sent();
  await pause(200);
  faults.same(`${what}: bytes sent afterwards`, sent() - then > 2 * 65536, false);
  faults.same(`${what}: requests afterwards`, fetch.requests.length - before, 0);
  const running = fetch.requests.filter((request) => request.sent < request.end - request.start && !request.isAborted);
  faults.same(`${what}: requests that go on`, running.length, 0);
  return { loader, iterator };
}

export async function paused() {
  const faults = new Faults();
  const closed = await stopped(faults, "close", ({ loader }) => loader.close());
  faults.expect("next after close", await outcome(closed.iterator.next()), "CLOSED");
  const aborted = await stopped(faults, "abort", ({ controller }) => controller.abort(new Error("enough")));
  faults.expect("next after abort", await outcome(aborted.iterator.next()), "enough");
  const returned = await stopped(faults, "return", ({ iterator }) => void iterator.return());
  faults.same("next after return", await returned.iterator.next(), { done: true });
  // Also while `next` is pending, when a generator would continue.
  await stopped(faults, "return amid next", async ({ iterator }) => {
    const next = iterator.next();
    await outcome(iterator.return());
    faults.same("the next that waited", await next, { done: true });
  }, { fetch: slowFetch(file, 50) });
  return faults;
}

// Requires that the test can collect garbage (`--js-flags=--expose-gc`).
export async function forgotten() {
  const faults = new Faults();
  const fetch = slowFetch(file, 2);
  const loader = await open("/slow", { fetch, maxMemory: 2 << 20 });
  await (async () => void (await loader.tensors().next()))();
  for (let turn = 0; turn < 20; turn++) {
    gc();
    await pause(20);
  }
  faults.same(
    "requests that go on",
    fetch.requests.filter(({ sent, start, end, isAborted }) => sent < end - start && !isAborted).length, 0,
  );
  loader.close();
  return faults;
}

export async function memory() {
  const faults = new Faults();
  const large = new Blob([safetensors(50_000, 1, 100)]);
  const sizes = [];
  for (let turn = 0; turn < 12; turn++) {
    const loader = await open(large);
    await loader.loadIndex();
    sizes.push(loader.stats.wasmMemoryBytes);
    loader.close();
    faults.same("stats of a closed loader", loader.stats.requests > 0, true);
  }
  // The memory may grow once, if allocations are placed differently. A leak would make it grow in each of the twelve
  // turns.
  if (sizes.at(-1) > 2 * sizes[0]) faults.push(`the memory grows: ${sizes.map((size) => size >> 20)} MiB`);
  return faults;
}

// A worker whose loader is closed while it waits for the page makes no further requests and serves the next loader.
export async function inWorker() {
  const faults = new Faults();
  const loader = await open(new Blob([file]), { inWorker: true });
  const iterator = loader.tensors();
  await iterator.next();
  await pause(300);
  loader.close();
  faults.expect("next after close", await outcome(iterator.next()), "CLOSED");
  const { bytesDecoded } = loader.stats;
  await pause(300);
  faults.same("bytes decoded afterwards", loader.stats.bytesDecoded - bytesDecoded, 0);
  const next = await open(new Blob([file]), { inWorker: true });
  let count = 0;
  for await (const { name } of next.tensors()) count += name.length > 0;
  next.close();
  faults.same("tensors of the next", count, 64);
  return faults;
}
