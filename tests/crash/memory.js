// Buffers and bodies that change during use. Each error names the buffer or the body, and the module does not crash.
import { Faults, MODEL, open, outcome, pause, safetensors, slowFetch } from "./common.js";

const SIZE = 1 << 20;
const file = safetensors(2, SIZE);
const detach = (buffer) => structuredClone(buffer, { transfer: [buffer] });

export async function into() {
  const faults = new Faults();
  for (const inWorker of [false, true]) {
    const fetch = inWorker ? undefined : slowFetch(file, 5);
    const loader = await open(inWorker ? new Blob([file]) : "/slow", { inWorker, ...(fetch && { fetch }) });
    const load = (into) => outcome(loader.loadTensor("t0..", { into }));

    const detached = new ArrayBuffer(SIZE);
    const view = new Uint8Array(detached);
    detach(detached);
    for (const target of [detached, view]) faults.expect(
      "detached before the load", await load(target), "INVALID_ARGUMENT", "`into` is detached",
    );

    const buffer = new ArrayBuffer(SIZE);
    const loading = load(buffer);
    if (!inWorker) await pause(30);
    detach(buffer);
    faults.expect(
      `detached while loading, inWorker: ${inWorker}`, await loading, "INVALID_ARGUMENT", "`into` was detached",
    );

    const shrinking = new ArrayBuffer(SIZE, { maxByteLength: SIZE });
    const shrunk = load(shrinking);
    if (!inWorker) await pause(30);
    shrinking.resize(SIZE / 2);
    faults.expect(
      `shrunk while loading, inWorker: ${inWorker}`, await shrunk, "INVALID_ARGUMENT", "`into` was detached or shrunk",
    );

    const growing = new ArrayBuffer(SIZE, { maxByteLength: 2 * SIZE });
    const grown = load(growing);
    growing.resize(2 * SIZE);
    faults.expect(`grown while loading, inWorker: ${inWorker}`, await grown, "done");

    faults.expect("the next load", await load(new ArrayBuffer(SIZE)), "done");
    loader.close();
  }
  return faults;
}

export async function bodies() {
  const faults = new Faults();
  const fetchThen = (change) => async (...request) => change(await fetch(...request));
  const read = fetchThen(async (response) => (await response.arrayBuffer(), response));
  const locked = fetchThen((response) => (response.body.getReader(), response));
  const openWith = (replacement) => outcome(open(MODEL, { fetch: replacement }));
  faults.expect("a body that was read", await openWith(read), "INVALID_ARGUMENT", "`fetch`", "already read");
  faults.expect("a locked body", await openWith(locked), "INVALID_ARGUMENT", "`fetch`", "locked");
  faults.expect("no response", await openWith(async () => undefined), "INVALID_ARGUMENT", "`fetch`");

  // A stream that detaches the buffer of a chunk after it enqueued the chunk.
  const fetchSlice = slowFetch(file);
  const detaching = async (url, init) => {
    const response = await fetchSlice(url, init);
    const whole = new Uint8Array(await response.arrayBuffer());
    const body = new ReadableStream({
      async start(controller) {
        controller.enqueue(whole);
        await pause(1);
        if (whole.byteLength > 65536 + 1000) detach(whole.buffer);
        controller.close();
      },
    });
    return new Response(body, { status: 206, headers: response.headers });
  };
  const loader = await open("/detaching", { fetch: detaching });
  const tensor = await loader.loadTensor("t0..").catch(({ code }) => code);
  if (typeof tensor !== "string") faults.same("all bytes", tensor.data.every((byte) => byte === 7), true);
  loader.close();

  const source = { byteLength: file.length, slice: (start, end) => {
    const { buffer } = file.slice(start, end);
    detach(buffer);
    return buffer;
  } };
  faults.expect("a detached slice", await outcome(open(source)), "TRUNCATED", "byte source");
  const throwing = { get byteLength() { throw new Error("no length"); }, slice() {} };
  faults.expect("a `byteLength` that throws", await outcome(open(throwing)), /^[A-Z_]+: /);
  const detached = file.slice().buffer;
  detach(detached);
  faults.expect("a detached source", await outcome(open(detached)), "INVALID_ARGUMENT", "`source` is detached");
  faults.expect("the next open", await outcome(open(MODEL)), "done");
  return faults;
}

export async function caches() {
  const faults = new Faults();
  const stored = new Map();
  const cache = {
    get: (key) => {
      const value = stored.get(key)?.slice();
      if (value) detach(value.buffer);
      return value;
    },
    set: (key, bytes) => void stored.set(key, bytes),
    delete: (key) => void stored.delete(key),
    keys: () => stored.keys(),
  };
  for (let turn = 0; turn < 2; turn++) {
    const load = async () => {
      const loader = await open(MODEL, { cache });
      for await (const { name } of loader.tensors()) void name;
      loader.close();
    };
    faults.expect(`load ${turn}`, await outcome(load()), "done");
    await pause(200);
  }
  return faults;
}

// Detaches the buffer of `into` while cached bytes are written to it.
export async function cachedInto() {
  const faults = new Faults();
  const stored = new Map();
  let beforeGet = () => {};
  const cache = {
    get: async (key) => (await pause(0), beforeGet(), stored.get(key)),
    set: (key, bytes) => void stored.set(key, bytes),
    delete: (key) => void stored.delete(key),
    keys: () => stored.keys(),
  };
  const fetch = slowFetch(file);
  const first = await open("/cached", { cache, fetch });
  await first.loadTensor("t0..");
  await pause(300);
  first.close();
  let detached = 0;
  for (let turn = 0; turn < 8; turn++) {
    const loader = await open("/cached", { cache, fetch });
    const into = new ArrayBuffer(SIZE);
    let gets = 0;
    beforeGet = () => {
      if (gets++ === turn) detach(into);
    };
    const result = await outcome(loader.loadTensor("t0..", { into }));
    beforeGet = () => {};
    if (result !== "done") {
      detached++;
      faults.expect(`detached at read ${turn}`, result, "INVALID_ARGUMENT", "`into` was detached");
    }
    faults.expect("the next load", await outcome(loader.loadTensor("t1..")), "done");
    loader.close();
  }
  if (detached === 0) faults.push("no load found a detached buffer");
  return faults;
}
