// A service worker that serves files for consumers that only take a URL.
import { COLUMNS, ROWS, serviceWeights } from "./graph.js";

const { Failures, content } = await import("/files/common.js");
const { serve } = await import("/pkg/weightstream.service-worker.js");

const SCRIPT = "/tests/service_worker_script.js";

let version = 0;

// Registers a new version of the worker, and returns how to call it once it controls this page.
async function started() {
  const controls = new Promise((resolve) =>
    navigator.serviceWorker.addEventListener("controllerchange", resolve, { once: true }));
  const url = `${SCRIPT}?version=${++version}`;
  const registration = await navigator.serviceWorker.register(url, { type: "module" });
  await controls;
  const worker = navigator.serviceWorker.controller;
  const call = (...command) => new Promise((resolve, reject) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data: { value, error } }) => (error === undefined ? resolve(value) : reject(new Error(error)));
    worker.postMessage(command, [port2]);
  });
  return { call, end: () => registration.unregister() };
}

// Runs a test with a new service worker.
async function withWorker(test) {
  const failures = new Failures();
  const { call, end } = await started();
  try {
    await test(failures, call);
  } finally {
    await end();
  }
  return failures;
}

const bytesOf = async (response) => new Uint8Array(await response.arrayBuffer());
const isSame = (a, b) => a.length === b.length && a.every((byte, at) => byte === b[at]);

// Calls `read` until its result is accepted, or will never be.
async function until(read, accept) {
  for (let tries = 500; ; tries--) {
    const value = await read();
    if (accept(value)) return value;
    if (tries === 0) throw new Error(`not accepted: ${JSON.stringify(value)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const isOver = ({ start, end, sent, isAborted }) => sent === end - start || isAborted;
const sum = (requests) => requests.reduce((total, { sent }) => total + sent, 0);

export const wholeFiles = () => withWorker(async (failures, call) => {
  const response = await fetch("/tests/model/cut-1000000");
  const { status, headers } = response;
  failures.same("headers", [
    status, ...["Content-Type", "Content-Length", "Accept-Ranges", "ETag"].map((name) => headers.get(name)),
  ], [200, "application/test", "1000000", "bytes", '"v1"']);
  failures.same("bytes", isSame(await bytesOf(response), content(1_000_000)), true);
  failures.same("connections broke", (await call("requests", "cut-1000000")).length > 4, true);
  failures.same("no length", isSame(await bytesOf(await fetch("/tests/model/chunked-300000")), content(300_000)), true);
  failures.same("an empty file", (await bytesOf(await fetch("/tests/model/empty-0"))).length, 0);
  failures.same("mapped", isSame(await bytesOf(await fetch("/tests/mapped/own-5000")), content(5000)), true);
});

export const ranges = () => withWorker(async (failures, call) => {
  const file = content(300_000);
  const get = async (range, others) => {
    const response = await fetch("/tests/model/a-300000", { headers: { ...(range && { Range: range }), ...others } });
    const bytes = await bytesOf(response);
    const contentRange = response.headers.get("Content-Range");
    const length = Number(response.headers.get("Content-Length"));
    const start = Number(/bytes (\d+)/.exec(contentRange ?? "")?.[1] ?? 0);
    const isRight = response.status === 416 || (length === bytes.length &&
      isSame(bytes, file.subarray(start, start + length)));
    return [response.status, contentRange, isRight ? bytes.length : "wrong bytes"];
  };
  const cases = {
    "bytes=0-0": [206, "bytes 0-0/300000", 1],
    "bytes=100000-200000": [206, "bytes 100000-200000/300000", 100_001],
    "bytes=299990-400000": [206, "bytes 299990-299999/300000", 10],
    "bytes=200000-": [206, "bytes 200000-299999/300000", 100_000],
    "bytes=-70000": [206, "bytes 230000-299999/300000", 70_000],
    "bytes=-400000": [206, "bytes 0-299999/300000", 300_000],
    "bytes=300000-": [416, "bytes */300000", 0],
    "bytes=-0": [416, "bytes */300000", 0],
    "bytes=5-4": [200, null, 300_000],
    "bytes=0-1,4-5": [200, null, 300_000],
    "lines=0-1": [200, null, 300_000],
  };
  for (const [range, expected] of Object.entries(cases)) failures.same(range, await get(range), expected);
  failures.same("If-Range, equal", await get("bytes=5-9", { "If-Range": '"v1"' }), [206, "bytes 5-9/300000", 5]);
  const total = sum(await call("requests", "a-300000"));
  failures.same(`bytes sent: ${total}`, total < 400_000, true);
  failures.same("If-Range, other", await get("bytes=5-9", { "If-Range": '"v0"' }), [200, null, 300_000]);
  const head = await fetch("/tests/model/a-300000", { method: "HEAD" });
  failures.same("HEAD", [head.status, head.headers.get("Content-Length"), (await bytesOf(head)).length],
    [200, "300000", 0]);
});

// A file that changes between two requests is answered as the old version, as the new one, or not at all.
export const oneVersion = () => withWorker(async (failures, call) => {
  const old = content(300_000);
  const isNew = (bytes, start) => isSame(bytes, old.slice(start).map((byte) => byte ^ 0x55));
  const names = ["weak", "dated", "bare"];
  const get = (name, range, others) =>
    fetch(`/tests/model/${name}-300000`, { headers: { ...(range && { Range: range }), ...others } });
  for (const name of names) {
    const first = await bytesOf(await get(name, "bytes=0-99999"));
    failures.same(`${name}: the old start`, isSame(first, old.slice(0, 100_000)), true);
  }
  await call("change");
  for (const name of names) {
    await failures.rejects(`${name}: the rest`, get(name, "bytes=100000-").then(bytesOf), ": ");
    failures.same(`${name}: reported`, await call("errors"), [`/tests/model/${name}-300000: CHANGED`]);
    const whole = await get(name, "bytes=100000-", { "If-Range": 'W/"false"' });
    failures.same(`${name}: If-Range`, [whole.status, isNew(await bytesOf(whole), 0)], [200, true]);
    failures.same(`${name}: the new rest`, isNew(await bytesOf(await get(name, "bytes=100000-")), 100_000), true);
  }
});

// The client has bytes of another version than the file that is still open.
export const aConditionOfAnotherVersion = () => withWorker(async (failures, call) => {
  const get = (name, headers) => fetch(`/tests/model/${name}-300000`, { headers });
  for (const name of ["weak", "dated", "bare"]) await bytesOf(await get(name, { Range: "bytes=0-99999" }));
  await call("change");
  const conditions = { weak: 'W/"false"', dated: "Fri, 13 Nov 2026 00:00:00 GMT", bare: '"x"' };
  for (const [name, condition] of Object.entries(conditions)) {
    const whole = await get(name, { Range: "bytes=100000-", "If-Range": condition });
    const bytes = await bytesOf(whole);
    const isNew = isSame(bytes, content(300_000).map((byte) => byte ^ 0x55));
    failures.same(`${name}: the new version`, [whole.status, isNew], [200, true]);
  }
});

export const severalClients = () => withWorker(async (failures, call) => {
  const frame = document.createElement("iframe");
  frame.src = "/tests/index.html";
  await new Promise((resolve) => {
    frame.onload = resolve;
    document.body.append(frame);
  });
  failures.same("the frame is a client", frame.contentWindow.navigator.serviceWorker.controller !== null, true);
  const url = "/tests/model/slow-3000000";
  const clients = [window, window, frame.contentWindow].map(async (client) => bytesOf(await client.fetch(url)));
  for (const bytes of await Promise.all(clients)) failures.same("bytes", isSame(bytes, content(3_000_000)), true);
  const total = sum(await call("requests", "slow-3000000"));
  failures.same(`bytes sent: ${total}`, total <= 3_000_000 + 65_536, true);
  frame.remove();
});

export const abort = () => withWorker(async (failures, call) => {
  const name = "slow-20000000";
  const controller = new AbortController();
  const response = await fetch(`/tests/model/${name}`, { signal: controller.signal });
  const reader = response.body.getReader();
  await reader.read();
  controller.abort();
  await failures.rejects("the client", reader.read(), "abort");
  const requests = await until(() => call("requests", name), (found) => found.length > 1 && found.every(isOver));
  failures.same(`bytes sent: ${sum(requests)}`, sum(requests) < 15_000_000, true);
  failures.same("no error is reported", await call("errors"), []);
});

export const cancel = () => withWorker(async (failures, call) => {
  const other = "slow-20000001";
  const cancelled = await fetch(`/tests/model/${other}`);
  await cancelled.body.cancel();
  const ended = await until(() => call("requests", other), (found) => found.every(isOver));
  failures.same("a cancelled body", sum(ended) < 15_000_000, true);
  failures.same("no error is reported", await call("errors"), []);
});

export const oneOfTwoClientsLeaves = () => withWorker(async (failures, call) => {
  const url = "/tests/model/slow-5000000";
  const controller = new AbortController();
  const [first, second] = await Promise.all([fetch(url, { signal: controller.signal }), fetch(url)]);
  const reader = first.body.getReader();
  await reader.read();
  controller.abort();
  await reader.read().catch(() => {});
  failures.same("the other gets all", isSame(await bytesOf(second), content(5_000_000)), true);
  failures.same("bytes sent", sum(await call("requests", "slow-5000000")) <= 5_000_000 + 65_536, true);

  const stop = new AbortController();
  const [lost, kept] = [fetch("/tests/model/held-70000", { signal: stop.signal }), fetch("/tests/model/held-70000")];
  stop.abort();
  await failures.rejects("an abort while the file is opened", lost, "abort");
  await call("release");
  failures.same("the other waits", isSame(await bytesOf(await kept), content(70_000)), true);
});

export const errors = () => withWorker(async (failures, call) => {
  const missing = await fetch("/tests/model/missing-1");
  failures.same("404", [missing.status, await missing.text()], [404, "status 404"]);
  failures.same("403", (await fetch("/tests/model/denied-1")).status, 403);
  failures.same("not reported", await call("errors"), []);
  await failures.rejects("no connection", fetch("/tests/model/unreachable"), "TypeError");
  failures.same("reported", await call("errors"), ["/tests/model/unreachable: NETWORK"]);
  const late = await fetch("/tests/model/late-1000000");
  await failures.rejects("a refusal in the middle", late.arrayBuffer().then(() => "all bytes"), ": ");
  failures.same("reported too", await call("errors"), ["/tests/model/late-1000000: HTTP"]);
  const wrong = await call("wrong");
  for (const [at, expected] of ["`match`", "`match`", "`fetch`", "`source`"].entries()) {
    const found = wrong[at];
    failures.same(found, found.startsWith("INVALID_ARGUMENT") && found.includes(expected), true);
  }
  await failures.rejects("on a page", (async () => serve({ match: () => true }))(), "UNSUPPORTED");
});

export const otherRequests = () => withWorker(async (failures, call) => {
  failures.same("no match", (await fetch("/tests/index.html")).status, 200);
  const post = await fetch("/tests/model/a-1000", { method: "POST", body: "" });
  failures.same("POST", [post.ok, await call("requests", "a-1000")], [false, []]);
});

// A worker that starts again has no state. Its cache is in IndexedDB.
export async function startsAgain() {
  const failures = new Failures();
  const [url, name] = ["/tests/cached/a-2000000", "a-2000000"];
  const first = await started();
  await first.call("clearCache");
  failures.same("cold", isSame(await bytesOf(await fetch(url)), content(2_000_000)), true);
  const second = await started();
  failures.same("another worker", await second.call("version"), String(version));
  failures.same("cached", await second.call("cached"), [url]);
  failures.same("warm", isSame(await bytesOf(await fetch(url)), content(2_000_000)), true);
  const requests = await second.call("requests", name);
  // One byte may be requested, to check that the file is unchanged.
  failures.same(`bytes sent: ${sum(requests)}`, sum(requests) <= 1, true);
  await second.call("clearCache");
  await second.end();
  return failures;
}

// The old worker finishes the response that it has begun.
export async function updates() {
  const failures = new Failures();
  await started();
  const response = await fetch("/tests/model/slow-4000000");
  const second = await started();
  failures.same("the body", isSame(await bytesOf(response), content(4_000_000)), true);
  failures.same("the new worker", await second.call("version"), String(version));
  failures.same("answers", isSame(await bytesOf(await fetch("/tests/model/b-100000")), content(100_000)), true);
  failures.same("its own requests", (await second.call("requests", "b-100000")).length > 0, true);
  await second.end();
  return failures;
}

// ONNX Runtime Web with the URL of external data.
export const aConsumerOfUrls = () => withWorker(async (failures, call) => {
  const ort = await import("/npm/onnxruntime-web/dist/ort.wasm.min.mjs");
  ort.env.wasm.wasmPaths = "/npm/onnxruntime-web/dist/";
  ort.env.wasm.numThreads = 1;
  const { file, graph } = serviceWeights();
  const outputs = async (data) => {
    const session = await ort.InferenceSession.create(graph, { externalData: [{ path: "weights", data }] });
    const x = Float32Array.from({ length: ROWS }, (_, at) => Math.sin(at));
    const { y } = await session.run({ x: new ort.Tensor("float32", x, [1, ROWS]) });
    await session.release();
    return Array.from(y.data);
  };
  const expected = await outputs(file);
  failures.same("outputs", [expected.length, expected.every(Number.isFinite)], [COLUMNS, true]);
  failures.same("the same outputs", await outputs("/tests/model/weights"), expected);
  failures.same("requests", (await call("requests", "weights")).length > 0, true);
});

// Service workers start no workers.
export const loadersInServiceWorkers = () => withWorker(async (failures, call) => {
  const { length, workersError } = await call("inWorker", "/fixtures/safetensors/basic.safetensors");
  failures.same("tensors", length, 4);
  failures.same(`says why: ${workersError}`, /Worker is not available in this context/.test(workersError ?? ""), true);
  await call("clearCache");
});
