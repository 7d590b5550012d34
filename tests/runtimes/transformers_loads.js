// transformers.js with small settings for the tests, loads of a model with and without the package, and what they do.
const { connect } = await import("/pkg/weightstream.transformers.js");
const { RETRY } = await import("/files/common.js");
export const { AutoModel, LogLevel, ModelRegistry, env, pipeline } =
  await import("/npm/@huggingface/transformers/dist/transformers.web.js");

env.logLevel = LogLevel.ERROR;
env.remoteHost = location.origin;
env.remotePathTemplate = "hub/minilm/resolve/{revision}/"; // for every model: transformers.js remembers some by name
env.backends.onnx.wasm.numThreads = 1;
env.backends.onnx.wasm.wasmPaths = {
  mjs: "/npm/onnxruntime-web/dist/ort-wasm-simd-threaded.mjs",
  wasm: "/npm/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm",
};

export const FILES = ["config.json", "tokenizer.json", "tokenizer_config.json", "onnx/model.onnx"];
export const TASK = "feature-extraction";
export const MODEL_BYTES = 22_928_619;
const SENTENCES = ["A lazy Blob is read on demand.", "Weights are streamed into the page."];
export const DEFAULTS = pick(env);

export function pick({ fetch, useBrowserCache, useCustomCache, useFSCache, experimental_useCrossOriginStorage }) {
  return { fetch, useBrowserCache, useCustomCache, useFSCache, experimental_useCrossOriginStorage };
}

export const settings = () => JSON.stringify({ ...pick(env), fetch: env.fetch === DEFAULTS.fetch });

let names = 0;
export const newName = () => `test/model-${names++}`;

// transformers.js loads ONNX Runtime itself once. Resolves to the URLs that were requested by then.
let firstLoad;
export const onnxRuntime = () => (firstLoad ??= loadConnected());
async function loadConnected() {
  const { fetch, requests } = recorder();
  await whileConnected({ fetch }, () => embeddings({ isSilent: true }));
  return requests.map(({ url }) => url);
}

// Loads the model and computes embeddings. `events` are those of transformers.js.
export async function embeddings(options) {
  const events = [];
  const progress_callback = options?.isSilent ? undefined : (event) => events.push(event);
  const name = options?.name ?? newName();
  const extractor = await pipeline(TASK, name, { dtype: "fp32", progress_callback });
  const { data } = await extractor(SENTENCES, { pooling: "mean", normalize: true });
  await extractor.dispose();
  return { values: JSON.stringify(Array.from(data)), count: data.length, events };
}

let ownResult;
export const own = () => (ownResult ??= ownEmbeddings());
async function ownEmbeddings() {
  await onnxRuntime();
  const result = await embeddings();
  result.stored = (await (await caches.open(env.cacheKey)).keys()).map(({ url }) => url);
  await caches.delete(env.cacheKey);
  return result;
}

// An ordinary `fetch` that records requests of the model's files. `script` returns how to change a response: cut after
// some bytes, or an error status.
export function recorder(script = () => ({})) {
  const requests = [];
  const fetch = async (url, init) => {
    const request = { url: String(url), range: new Headers(init?.headers).get("Range"), received: 0 };
    requests.push(request);
    const { cutAfter = Infinity, status } = script(requests.length - 1, request);
    if (status) return new Response(`status ${status}`, { status });
    const response = await globalThis.fetch(url, init);
    const count = new TransformStream({
      transform(bytes, controller) {
        const left = cutAfter - request.received;
        request.received += Math.min(left, bytes.length);
        controller.enqueue(bytes.subarray(0, left));
        if (bytes.length >= left) controller.error(new TypeError("network error"));
      },
    });
    const { headers } = response;
    return new Response(response.body?.pipeThrough(count), { status: response.status, headers });
  };
  const received = (name) =>
    requests.reduce((sum, { url, received }) => sum + (url.endsWith(`/${name}`) ? received : 0), 0);
  return { fetch, requests, received };
}

// The events of each file, with its last numbers, without the number of events in between.
export function byFile(events) {
  const files = {};
  for (const { status, file, loaded, total, progress } of events) {
    if (!file) continue;
    const known = (files[file] ??= []);
    if (known.at(-1)?.startsWith("progress") && status === "progress") known.pop();
    known.push(status === "progress" ? `${status} ${loaded} of ${total}, ${progress} %` : status);
  }
  return Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1));
}

export const lastTotal = (events) => {
  const { loaded, total, progress, files } = events.filter(({ status }) => status === "progress_total").at(-1);
  return { loaded, total, progress, files: Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1)) };
};

export async function connected(options, use) {
  await onnxRuntime();
  return whileConnected(options, use);
}

async function whileConnected(options, use) {
  const disconnect = connect(env, { cache: "none", retry: RETRY, ...options });
  try {
    return await use();
  } finally {
    disconnect();
  }
}
