// A model as MLC publishes it: `tensor-cache.json`, shards, a configuration, a tokenizer and a compiled library.
const { content, serverOf } = await import("/files/common.js");

export const MODEL = "https://models.example/tiny";
export const BASE = `${MODEL}/resolve/main/`;
export const LIBRARY = "https://models.example/lib/tiny.wasm";
export const urlOf = (name) => new URL(name, BASE).href;

const json = (value) => new TextEncoder().encode(JSON.stringify(value));

// `bytes` is the length of a shard. Each has two tensors, the second one packed as bfloat16.
export function mlcModel({ shards = 3, bytes = 6000 } = {}) {
  const files = {};
  const all = content(shards * bytes);
  const records = Array.from({ length: shards }, (_, at) => {
    const dataPath = `params_shard_${at}.bin`;
    files[dataPath] = all.slice(at * bytes, (at + 1) * bytes);
    const [raw, packed] = [bytes / 3, (bytes * 2) / 3];
    return {
      dataPath,
      format: "raw-shard",
      nbytes: bytes,
      records: [
        { name: `raw.${at}`, shape: [raw / 4], dtype: "uint32", format: "raw", byteOffset: 0, nbytes: raw },
        {
          name: `packed.${at}`, shape: [2, packed / 4], dtype: "float32", format: "f32-to-bf16",
          byteOffset: raw, nbytes: packed,
        },
      ],
    };
  });
  files["tensor-cache.json"] = json({ metadata: { ParamSize: 2 * shards, ParamBytes: shards * bytes }, records });
  files["mlc-chat-config.json"] = json({ tokenizer_files: ["tokenizer.json"] });
  files["tokenizer.json"] = json({ model: "none" });
  files["tiny.wasm"] = content(100);
  return { files, shards: records.map(({ dataPath }) => dataPath) };
}

// The files on a server, by the end of their URLs. Each of them has its own count of requests for `script`.
export function serverOfModel({ files }, script = () => ({})) {
  const servers = Object.entries(files).map(([name, bytes]) =>
    [name, serverOf(bytes, (number, url) => script(number, url, name))]);
  const of = (url) => servers.find(([name]) => String(url?.url ?? url).split("?")[0].endsWith(`/${name}`))?.[1];
  return {
    has: (url) => of(url) !== undefined,
    fetch: (url, init) => of(url).fetch(url, init ?? { signal: url.signal, headers: url.headers }),
    requests: (name) => servers.filter(([of]) => (name ?? of) === of).flatMap(([, { requests }]) => requests),
    sent: () => servers.reduce((sum, [, server]) => sum + server.sent(), 0),
  };
}

// Lets everything that calls the global `fetch` use a server during a call.
export async function withGlobalFetch(server, call) {
  const ordinary = globalThis.fetch;
  globalThis.fetch = (url, init) => (server.has(url) ? server.fetch(url, init) : ordinary.call(globalThis, url, init));
  try {
    return await call();
  } finally {
    globalThis.fetch = ordinary;
  }
}

await import("/npm/@mlc-ai/web-runtime/lib/index.js"); // sets `tvmjs`
export const { tvmjs } = globalThis;

// The runtime, unpatched, up to its WebAssembly module. The npm packages contain none: it is compiled together with a
// model. These are the calls to it that `fetchTensorCache` makes.
export function runtime() {
  const tvm = Object.create(tvmjs.Instance.prototype);
  const tensors = [];
  const messages = [];
  const decode = (tensor, bytes, format, dtype) => Object.assign(tensor, { bytes: Array.from(bytes), format, dtype });
  const scope = { beginScope() {}, endScope() {}, detachFromCurrentScope: (tensor) => tensor };
  Object.assign(tvm, {
    env: { logger: () => {} },
    cacheMetadata: {},
    initProgressCallback: [({ text }) => messages.push(text)],
    ctx: { ...scope, arrayDecodeStorage: decode },
    empty: (shape, dtype) => ({ shape, dtype, dispose() {} }),
    tensorCacheUpdate: (name, tensor) => tensors.push({ name, ...tensor }),
  });
  return { tvm, tensors, messages };
}

// What the runtime has after it has loaded a model.
export async function loaded(options) {
  const { tvm, tensors, messages } = runtime();
  await tvm.fetchTensorCache(BASE, tvm.cpu(), options);
  const isFromCache = !messages.some((text) => text.startsWith("Fetching"));
  return { result: JSON.stringify([tensors, tvm.cacheMetadata]), isFromCache };
}
