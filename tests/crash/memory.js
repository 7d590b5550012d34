// Buffers and bodies that change while they are used: the error names them, and the module does not crash.
import { Faults, MODEL, open, outcome, pause, safetensors, slowFetch } from "./common.js";

const SIZE = 1 << 20;
const file = safetensors(2, SIZE);
const detach = (buffer) => structuredClone(buffer, { transfer: [buffer] });

export async function into() {
  const faults = new Faults();
  for (const inWorker of [false, true]) {
    const fetch = inWorker ? undefined : slowFetch(file, 5);
    const loader = await open(inWorker ? new Blob([file]) : "/slow", { inWorker, ...(fetch && { fetch }) });
    const load = (given) => outcome(loader.loadTensor("t0..", { into: given }));

    const gone = new ArrayBuffer(SIZE);
    const view = new Uint8Array(gone);
    detach(gone);
    for (const given of [gone, view]) faults.expect(
      "detached before", await load(given), "INVALID_ARGUMENT", "`into` is detached",
    );

    const going = new ArrayBuffer(SIZE);
    const loading = load(going);
    if (!inWorker) await pause(30);
    detach(going);
    faults.expect(`detached during, inWorker: ${inWorker}`, await loading, "INVALID_ARGUMENT", "`into` was detached");

    const shrinking = new ArrayBuffer(SIZE, { maxByteLength: SIZE });
    const shrunk = load(shrinking);
    if (!inWorker) await pause(30);
    shrinking.resize(SIZE / 2);
    faults.expect(
      `shrunk during, inWorker: ${inWorker}`, await shrunk, "INVALID_ARGUMENT", "`into` was detached or shrunk",
    );

    const growing = new ArrayBuffer(SIZE, { maxByteLength: 2 * SIZE });
    const grown = load(growing);
    growing.resize(2 * SIZE);
    faults.expect(`grown during, inWorker: ${inWorker}`, await grown, "done");

    faults.expect("the next one", await load(new ArrayBuffer(SIZE)), "done");
    loader.close();
  }
  return faults;
}

export async function bodies() {
  const faults = new Faults();
  const spoil = (spoiled) => async (...request) => spoiled(await fetch(...request));
  const read = spoil(async (response) => (await response.arrayBuffer(), response));
  const locked = spoil((response) => (response.body.getReader(), response));
  faults.expect("read", await outcome(open(MODEL, { fetch: read })), "INVALID_ARGUMENT", "`fetch`", "already read");
  faults.expect("locked", await outcome(open(MODEL, { fetch: locked })), "INVALID_ARGUMENT", "`fetch`", "locked");
  faults.expect("nothing", await outcome(open(MODEL, { fetch: async () => undefined })), "INVALID_ARGUMENT", "`fetch`");

  // A chunk that its owner detaches after half of it has been read.
  const slices = slowFetch(file);
  const detaching = async (url, init) => {
    const response = await slices(url, init);
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
  faults.expect("a length that throws", await outcome(open(throwing)), /^[A-Z_]+: /);
  const gone = file.slice().buffer;
  detach(gone);
  faults.expect("a detached source", await outcome(open(gone)), "INVALID_ARGUMENT", "`source` is detached");
  faults.expect("the next one", await outcome(open(MODEL)), "done");
  return faults;
}

export async function caches() {
  const faults = new Faults();
  const kept = new Map();
  const cache = {
    get: (key) => {
      const value = kept.get(key)?.slice();
      if (value) detach(value.buffer);
      return value;
    },
    set: (key, bytes) => void kept.set(key, bytes),
    delete: (key) => void kept.delete(key),
    keys: () => kept.keys(),
  };
  for (let turn = 0; turn < 2; turn++) {
    const load = async () => {
      const loader = await open(MODEL, { cache });
      for await (const { name } of loader.tensors()) void name;
      loader.close();
    };
    faults.expect(`turn ${turn}`, await outcome(load()), "done");
    await pause(200);
  }
  return faults;
}

// A buffer that is detached while bytes from the cache are written to it.
export async function cachedInto() {
  const faults = new Faults();
  const kept = new Map();
  let beforeAnswer = () => {};
  const cache = {
    get: async (key) => (await pause(0), beforeAnswer(), kept.get(key)),
    set: (key, bytes) => void kept.set(key, bytes),
    delete: (key) => void kept.delete(key),
    keys: () => kept.keys(),
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
    beforeAnswer = () => {
      if (gets++ === turn) detach(into);
    };
    const found = await outcome(loader.loadTensor("t0..", { into }));
    beforeAnswer = () => {};
    if (found !== "done") {
      detached++;
      faults.expect(`detached at read ${turn}`, found, "INVALID_ARGUMENT", "`into` was detached");
    }
    faults.expect("the next one", await outcome(loader.loadTensor("t1..")), "done");
    loader.close();
  }
  if (detached === 0) faults.push("no load met memory that was detached");
  return faults;
}
