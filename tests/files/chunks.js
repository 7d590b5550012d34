// `onChunk`: the bytes of a tensor while they arrive, and the progress of tensors that are read in pieces.
import { Failures, RETRY, hex, serverOf, tick } from "./common.js";
import { safetensors } from "./safetensors.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");

const LENGTH = 3_500_000;
const MODEL = safetensors({ a: 10, b: LENGTH, empty: 0 });
const FIXTURES = ["apr/v1_lz4.apr", "safetensors/alltypes.safetensors", "ztensor/py123_alltypes.zt", "gguf/quant.gguf"];

const bytesOf = ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength);

// Loads a tensor, and copies its chunks as they arrive.
async function collected(loader, name, options) {
  const chunks = [];
  const onChunk = ({ offset, bytes }) => void chunks.push({ offset, bytes: bytes.slice() });
  const tensor = await loader.loadTensor(name, { ...options, onChunk });
  return { tensor, chunks };
}

export async function chunksAreTheTensor() {
  const failures = new Failures();
  for (const path of FIXTURES) {
    for (const inWorker of [false, true]) {
      const loader = await StreamingLoader.open(`/fixtures/${path}`, { cache: "none", inWorker });
      for (const { name, layout, components } of await loader.loadIndex()) {
        if (layout !== "dense" || components.length !== 1) continue;
        const expected = await loader.loadTensor(name);
        const { tensor, chunks } = await collected(loader, name);
        const what = `${path} ${name} ${inWorker}`;
        const joined = new Uint8Array(await new Blob(chunks.map(({ bytes }) => bytes)).arrayBuffer());
        failures.same(`${what}: chunks`, await hex(joined), await hex(bytesOf(expected.data)));
        failures.same(`${what}: data`, await hex(bytesOf(tensor.data)), await hex(bytesOf(expected.data)));
        const described = ({ data, components, ...fields }) => ({
          ...fields, data: data.constructor.name, components: [...components].map(([role, { dtype }]) => [role, dtype]),
        });
        failures.same(`${what}: fields`, described(tensor), described(expected));
        failures.same(`${what}: is`, tensor.is(expected.dtype), true);
      }
      loader.close();
    }
  }
  return failures;
}

export async function chunksArriveBeforeTheTensor() {
  const failures = new Failures();
  const events = [];
  const { fetch, sent } = serverOf(MODEL, () => ({ delay: 2 }));
  const onProgress = (event) => events.push(event);
  const loader = await StreamingLoader.open("/m.safetensors", { fetch, cache: "none", retry: RETRY, onProgress });
  const seen = [];
  const tensor = await loader.loadTensor("b", {
    onChunk: async ({ offset, bytes }) => {
      seen.push([offset, bytes.length, sent() < offset + 3 * 1024 * 1024]);
      await new Promise((resolve) => setTimeout(resolve, 5));
    },
  });
  const sizes = [[0, 1048576], [1048576, 1048576], [2097152, 1048576], [3145728, LENGTH - 3145728]];
  failures.same("in order, while the rest arrives", seen, sizes.map((size) => [...size, true]));
  failures.same("the tensor", tensor.data.length, LENGTH);
  const outcomes = events.map(({ type, outcome }) => [type, outcome]).filter(([, outcome]) => outcome);
  failures.same("the progress ends once", outcomes, [["loadTensor", "done"]]);
  failures.same("with all bytes", [events.at(-1).loaded, events.at(-1).total], [LENGTH, LENGTH]);
  const rows = await collected(loader, "b", { rows: [5, 2_000_005] });
  const sizesOfRows = rows.chunks.map(({ offset, bytes }) => [offset, bytes.length]);
  failures.same("rows", sizesOfRows, [[0, 1048576], [1048576, 951424]]);
  const { loaded, total } = events.at(-1);
  failures.same("the progress of rows", [loaded, total], [2_000_000, 2_000_000]);
  failures.same("the first row", rows.chunks[0].bytes[0], tensor.data[5]);
  const empty = await collected(loader, "empty");
  failures.same("no bytes", [empty.chunks.length, empty.tensor.data.length], [0, 0]);
  loader.close();
  return failures;
}

export async function chunksThatFail() {
  const failures = new Failures();
  for (const inWorker of [false, true]) {
    const outcomes = [];
    const onProgress = (event) => event.done && outcomes.push(event.outcome);
    const url = "/rows/m.safetensors";
    const loader = await StreamingLoader.open(url, { cache: "none", retry: RETRY, onProgress, inWorker });
    const { name, byteLength } = (await loader.loadIndex()).reduce((a, b) => (a.byteLength > b.byteLength ? a : b));
    const thrown = new Error("enough");
    const outcomeOf = (onChunk, signal) => loader.loadTensor(name, { signal, onChunk }).catch((error) => error);
    const onLast = (call) => ({ offset, bytes }) => offset + bytes.length === byteLength ? call() : undefined;
    const fail = () => { throw thrown; };
    failures.same("thrown", await outcomeOf(fail) === thrown, true);
    failures.same("thrown on the last chunk", await outcomeOf(onLast(fail)) === thrown, true);
    failures.same("rejected", await outcomeOf(async () => fail()) === thrown, true);
    const transfer = ({ bytes }) => void structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
    failures.same("transferred", (await outcomeOf(transfer)).code, "INVALID_ARGUMENT");
    await tick(); // for messages of the worker
    failures.same("the progress", outcomes.splice(0), ["failed", "failed", "failed", "failed"]);
    for (const wrap of [(call) => call, onLast]) {
      const controller = new AbortController();
      const abort = wrap(() => controller.abort(thrown));
      failures.same("an abort in the call", await outcomeOf(abort, controller.signal) === thrown, true);
    }
    const controller = new AbortController();
    const never = () => new Promise(() => {});
    setTimeout(() => controller.abort(thrown), 50);
    failures.same("an abort while it waits", await outcomeOf(never, controller.signal) === thrown, true);
    await failures.rejects("no such tensor", loader.loadTensor("x", { onChunk: never }), "NOT_FOUND");
    await tick();
    failures.same("the progress of aborts", outcomes.splice(0), ["aborted", "aborted", "aborted", "failed"]);
    setTimeout(() => loader.close(), 50);
    failures.same("a close while it waits", (await outcomeOf(never)).code, "CLOSED");
  }
  return failures;
}

export async function refusesOtherOptions() {
  const failures = new Failures();
  const { fetch } = serverOf(MODEL);
  const loader = await StreamingLoader.open("/m.safetensors", { fetch, cache: "none" });
  const onChunk = () => {};
  for (const option of [{ as: "F32" }, { into: new ArrayBuffer(10) }, { layout: "dense" }]) {
    const [name] = Object.keys(option);
    await failures.rejects(name, loader.loadTensor("a", { ...option, onChunk }), "INVALID_ARGUMENT", `\`${name}\``);
  }
  await failures.rejects("no function", loader.loadTensor("a", { onChunk: 1 }), "INVALID_ARGUMENT", "`onChunk`");
  loader.close();
  return failures;
}

export async function wrongBytesEndWithoutTheLastChunk() {
  const failures = new Failures();
  const loader = await StreamingLoader.open("/fixtures/bad/ztensor_sha_flip.zt", { cache: "none" });
  let wrong = 0;
  for (const { name, byteLength } of await loader.loadIndex()) {
    let passedBytes = 0;
    const onChunk = ({ bytes }) => void (passedBytes += bytes.length);
    const code = await loader.loadTensor(name, { onChunk }).then(() => "none", (error) => error.code);
    if (code === "none") continue;
    wrong++;
    failures.same(`${name}: the error and the bytes`, [code, passedBytes < byteLength], ["CHECKSUM", true]);
  }
  failures.same("a wrong tensor", wrong, 1);
  loader.close();
  return failures;
}
