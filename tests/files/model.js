// Models as Blobs (`toBlob`): one SafeTensors file, whatever the format, the compression and the number of files.
import { Failures, LoadError, collect, hex, serverOf } from "./common.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");

const MODELS = ["apr/v1_lz4.apr", "apr/quantized.apr", "aero/lowlevel_zstd.aero", "ztensor/py123_alltypes.zt",
  "gguf/quant.gguf", "burnpack/bp022_alltypes.bpk", "aero/set/model.aeroset.json"];
const DTYPES = ["BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "I16", "U16", "F16", "BF16", "I32", "U32", "F32", "I64",
  "U64", "F64", "C64"];

// The file as the documentation describes it.
async function expectedFile(loader) {
  const header = {};
  const data = [];
  let start = 0;
  for (const { name, dtype, shape } of await loader.loadIndex()) {
    const { components } = await loader.loadTensor(name);
    const { data: array } = components.get("data");
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    const isKnown = DTYPES.includes(dtype);
    header[name] = {
      dtype: isKnown ? dtype : "U8",
      shape: isKnown ? shape.map(Number) : [bytes.length],
      data_offsets: [start, (start += bytes.length)],
    };
    data.push(bytes);
  }
  const json = new TextEncoder().encode(JSON.stringify(header));
  const padded = Math.ceil((8 + json.length) / 8) * 8;
  const head = new Uint8Array(padded).fill(32);
  new DataView(head.buffer).setBigUint64(0, BigInt(padded - 8), true);
  head.set(json, 8);
  return new Uint8Array(await new Blob([head, ...data]).arrayBuffer());
}

async function compare(failures, path, options) {
  const loader = await StreamingLoader.open(`/fixtures/${path}`, { cache: "none", ...options });
  const unawaited = loader.toBlob();
  const early = hex(await unawaited.slice(0, 8).arrayBuffer());
  const blob = await loader.toBlob();
  const expected = await expectedFile(loader);
  const what = `${path} ${JSON.stringify(options)}`;
  failures.same(`${what}: size`, [blob.size, loader.toBlob().size ?? 0, blob instanceof Blob], [expected.length,
    expected.length, true]);
  failures.same(`${what}: start`, await early, await hex(expected.slice(0, 8)));
  failures.same(`${what}: stream`, await hex(await collect(blob.stream())), await hex(expected));
  for (const [start, end] of [[5, 700], [expected.length >> 1, expected.length], [-100, -3], [0, 1e9]]) {
    const found = await blob.slice(start, end).arrayBuffer();
    failures.same(`${what}: ${start} to ${end}`, await hex(found), await hex(expected.slice(start, end)));
  }
  loader.close();
  await failures.rejects(`${what}: closed`, blob.slice(0, 8).arrayBuffer(), "CLOSED");
}

export async function everyFormat() {
  const failures = new Failures();
  for (const path of MODELS) await compare(failures, path, {});
  return failures;
}

export async function inAWorker() {
  const failures = new Failures();
  for (const path of MODELS.slice(0, 3)) await compare(failures, path, { inWorker: true });
  return failures;
}

export async function sizeOfAModelInSeveralFiles() {
  const failures = new Failures();
  const loader = await StreamingLoader.open("/fixtures/apr/sharded/model.apr.json", { cache: "none" });
  const blob = loader.toBlob();
  try {
    failures.push(`the size is ${blob.size} before the index is read`);
  } catch (error) {
    failures.same("the error", [error instanceof LoadError, error.code], [true, "INVALID_ARGUMENT"]);
  }
  const { size } = await blob;
  failures.same("size afterwards", blob.size, size);
  loader.close();
  return failures;
}

export async function sparseTensors() {
  const failures = new Failures();
  const loader = await StreamingLoader.open("/fixtures/ztensor/py111_sparse.zt", { cache: "none" });
  await failures.rejects("toBlob", (async () => loader.toBlob())(), "UNSUPPORTED", "sparse");
  loader.close();
  return failures;
}

// A SafeTensors file of two tensors, where the second one is read.
export async function readsOnlyWhatIsAskedFor() {
  const failures = new Failures();
  const [first, second] = [3_000_000, 1_000_000];
  const header = JSON.stringify({
    a: { dtype: "U8", shape: [first], data_offsets: [0, first] },
    b: { dtype: "U8", shape: [second], data_offsets: [first, first + second] },
  });
  const file = new Uint8Array(8 + header.length + first + second).map((_, at) => (at * 7) & 0xff);
  new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
  file.set(new TextEncoder().encode(header), 8);

  const server = serverOf(file, (number) => (number === 1 ? { cutAfter: 300_000 } : {}));
  const loader = await StreamingLoader.open("/m.safetensors", {
    fetch: server.fetch, cache: "none", retry: { attempts: 3, baseDelay: 1 },
  });
  const blob = await loader.toBlob();
  const part = await blob.slice(blob.size - second).arrayBuffer();
  failures.same("the tensor", await hex(part), await hex(file.slice(-second)));
  failures.same(`${server.sent()} bytes sent`, server.sent() < second + 500_000, true);

  const reader = blob.stream().getReader();
  await reader.read();
  await reader.cancel();
  await new Promise((resolve) => setTimeout(resolve, 50));
  failures.same("requests that run on", server.requests.filter(({ isAborted, sent, start, end }) =>
    !isAborted && sent < end - start && end - start > 1_000_000).length, 0);
  loader.close();
  return failures;
}

export async function warnings() {
  const failures = new Failures();
  for (const inWorker of [false, true]) {
    for (const [path, expected] of [
      ["aero/phsh_only.aero", ["the chunk `meta.json` has no digest, so it was not checked"]],
      ["aero/basic.aero", []],
    ]) {
      const loader = await StreamingLoader.open(`/fixtures/${path}`, { cache: "none", inWorker });
      const url = new URL(`/fixtures/${path}`, location.href).href;
      failures.same(path, await loader.warnings(), expected.map((warning) => `${url}: ${warning}`));
      loader.close();
      await failures.rejects("closed", loader.warnings(), "CLOSED");
    }
  }
  return failures;
}

// A garbage collection may come late: a new buffer for each piece takes memory until then.
export async function piecesShareOneBuffer() {
  const failures = new Failures();
  const byteLength = 16 << 20;
  const header = JSON.stringify({ a: { dtype: "U8", shape: [byteLength], data_offsets: [0, byteLength] } });
  const file = new Uint8Array(8 + header.length + byteLength).map((_, at) => (at * 7) & 0xff);
  new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
  file.set(new TextEncoder().encode(header), 8);
  const loader = await StreamingLoader.open("/m.safetensors", { fetch: serverOf(file).fetch, cache: "none" });
  const blob = await loader.toBlob();

  let allocated = 0;
  const { ArrayBuffer } = globalThis;
  const construct = (target, [length]) => {
    allocated += length;
    return new target(length);
  };
  globalThis.ArrayBuffer = new Proxy(ArrayBuffer, { construct });
  const found = await collect(blob.slice(-byteLength).stream());
  globalThis.ArrayBuffer = ArrayBuffer;
  failures.same("the tensor", await hex(found), await hex(file.slice(-byteLength)));
  failures.same(`bytes allocated (${allocated})`, allocated > 0 && allocated <= 4 << 20, true);
  loader.close();
  return failures;
}

// The order of `names`, in the page, in workers and on the way to a GPU.
export async function tensorsInTheGivenOrder() {
  const failures = new Failures();
  for (const path of ["apr/v1_lz4.apr", "ztensor/py123_alltypes.zt", "apr/sharded/model.apr.json"]) {
    for (const options of [{}, { inWorker: true }, { workers: 2 }]) {
      const loader = await StreamingLoader.open(`/fixtures/${path}`, { cache: "none", ...options });
      const what = `${path} ${JSON.stringify(options)}`;
      const inFile = (await loader.loadIndex()).map(({ name }) => name);
      const names = [...inFile.filter((_, at) => at % 2), ...inFile.filter((_, at) => at % 2 === 0).reverse()];
      const found = [];
      for await (const { name, data } of loader.tensors({ names, order: "given" })) {
        const { data: expected } = await loader.loadTensor(name);
        failures.same(`${what} ${name}`, await hex(data), await hex(expected));
        found.push(name);
      }
      failures.same(what, found, names);
      loader.close();
    }
  }
  const loader = await StreamingLoader.open("/fixtures/apr/v1_lz4.apr", { cache: "none" });
  const next = (options) => loader.tensors(options).next();
  await failures.rejects("no names", next({ order: "given" }), "INVALID_ARGUMENT", "`names`");
  await failures.rejects("another order", next({ order: "layers" }), "INVALID_ARGUMENT", "`order`");
  loader.close();
  return failures;
}
