// `onChunk`: the bytes of a tensor while they arrive, and the progress of tensors that are read in pieces.
import { Failures, RETRY, hex, serverOf } from "./common.js";
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
  failures.same("the first row", rows.chunks[0].bytes[0], tensor.data[5]);
  const empty = await collected(loader, "empty");
  failures.same("no bytes", [empty.chunks.length, empty.tensor.data.length], [0, 0]);
  loader.close();
  return failures;
}

export async function chunksThatFail() {
  const failures = new Failures();
  const events = [];
  const { fetch, requests } = serverOf(MODEL, () => ({ delay: 2 }));
  const onProgress = (event) => event.done && events.push(event.outcome);
  const loader = await StreamingLoader.open("/m.safetensors", { fetch, cache: "none", retry: RETRY, onProgress });
  const thrown = new Error("enough");
  const onChunk = () => { throw thrown; };
  const outcome = await loader.loadTensor("b", { onChunk }).catch((error) => error);
  failures.same("what the callback throws", outcome === thrown, true);
  failures.same("its request is stopped", requests.at(-1).isAborted, true);
  const controller = new AbortController();
  const stopped = loader.loadTensor("b", { signal: controller.signal, onChunk: () => controller.abort(thrown) });
  failures.same("an abort", await stopped.catch((error) => error) === thrown, true);
  failures.same("the progress", events, ["aborted", "aborted"]);
  await failures.rejects("no such tensor", loader.loadTensor("x", { onChunk }), "NOT_FOUND");
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
