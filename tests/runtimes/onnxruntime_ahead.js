// ONNX Runtime Web with weights that are requested before it asks for them.
import { COLUMNS, ROWS, linearGraph } from "./graph.js";
import { outputs } from "./linear.js";

const { StreamingLoader, clearCache, openFile } = await import("/pkg/weightstream.js");
const { externalData, prepare } = await import("/pkg/weightstream.onnxruntime.js");
const { Failures, serverOf } = await import("/files/common.js");

const LOCATION = "model.safetensors";
const ORDERS = "weightstream-orders";
const PADDING = 1_000_000;

const hasJspi = () => WebAssembly.Suspending !== undefined || navigator.userAgent.includes("Chrome");

async function runtime(build) {
  const ort = await import(`/npm/onnxruntime-web/dist/${build}`);
  ort.env.wasm.wasmPaths = "/npm/onnxruntime-web/dist/";
  ort.env.wasm.numThreads = 1;
  return ort;
}

const BUILDS = ["ort.wasm.min.mjs", ...(hasJspi() ? ["ort.jspi.min.mjs"] : [])];

// A SafeTensors model of a linear layer with a tensor that the graph does not use, in front.
function model() {
  const values = Float32Array.from({ length: (ROWS + 1) * COLUMNS }, (_, at) => Math.sin(at * 12.9898) / 2);
  const [first, second] = [ROWS * COLUMNS * 4, (ROWS + 1) * COLUMNS * 4].map((end) => PADDING + end);
  let header = JSON.stringify({
    unused: { dtype: "U8", shape: [PADDING], data_offsets: [0, PADDING] },
    W: { dtype: "F32", shape: [ROWS, COLUMNS], data_offsets: [PADDING, first] },
    b: { dtype: "F32", shape: [COLUMNS], data_offsets: [first, second] },
  });
  header = header.padEnd(Math.ceil(header.length / 8) * 8); // as the loader presents the model
  const file = new Uint8Array(8 + header.length + second);
  new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
  file.set(new TextEncoder().encode(header), 8);
  file.set(new Uint8Array(values.buffer), 8 + header.length + PADDING);
  const [start, middle] = [8 + header.length + PADDING, 8 + header.length + first];
  return {
    file,
    graph: linearGraph(LOCATION, { offset: start, length: middle - start }, { offset: middle, length: COLUMNS * 4 }),
    payload: second - PADDING,
  };
}

async function until(isDone) {
  for (let turn = 0; turn < 500 && !isDone(); turn++) await new Promise((resolve) => setTimeout(resolve, 10));
}

// All bytes that a graph needs arrive before the session is created, once, and no others.
export async function arrivesBeforeTheSession() {
  const failures = new Failures();
  const { file, graph, payload } = model();
  for (const build of BUILDS) {
    const ort = await runtime(build);
    const server = serverOf(file);
    const remote = await openFile("/ahead.bin", { fetch: server.fetch, cache: "none" });
    const before = server.sent();
    const external = await externalData(remote, LOCATION, { graph });
    await until(() => server.sent() >= before + payload);
    const ahead = server.sent();
    const isExact = ahead >= before + payload && ahead < before + payload + 200_000;
    failures.same(`${build}: bytes before (${ahead - before} of ${payload})`, isExact, true);
    const expected = await outputs(ort, graph, [{ path: LOCATION, data: file }]);
    failures.same(`${build}: outputs`, await outputs(ort, graph, external), expected);
    if (build.includes("jspi")) failures.same("bytes after", server.sent(), ahead);
    remote.close();
  }
  return failures;
}

// The loader is opened while the runtime is compiled. The other builds read the model as a whole.
export async function preparedWeights() {
  const failures = new Failures();
  const { file, graph } = model();
  for (const build of BUILDS) {
    const server = serverOf(file, () => ({ delay: 2 }));
    const weights = prepare("/ahead.safetensors", LOCATION, { open: { fetch: server.fetch, cache: "none" } });
    const ort = await runtime(build);
    const found = await outputs(ort, graph, weights.externalData);
    failures.same(build, found, await outputs(ort, graph, [{ path: LOCATION, data: file }]));
    failures.same(`${build}: bytes (${server.sent()} of ${file.length})`, server.sent() < file.length * 1.1, true);
    failures.same("the loader", (await (await weights.loader).loadIndex()).length, 3);
    weights.close();
    await failures.rejects("a closed loader", weights.loader.then((loader) => loader.loadTensor("b")), "CLOSED");
  }
  return failures;
}

export async function reportsErrors() {
  const failures = new Failures();
  const ort = await runtime(BUILDS.at(-1));
  const { file, graph } = model();
  const missing = prepare("/ahead.safetensors", LOCATION, {
    open: { fetch: async () => new Response("", { status: 404 }), cache: "none" },
  });
  await failures.rejects("a session without weights", outputs(ort, graph, missing.externalData), ": ");
  await failures.rejects("its loader", missing.loader, "HTTP", "404");
  missing.close();

  const controller = new AbortController();
  const server = serverOf(file, () => ({ delay: 20 }));
  const aborted = prepare("/ahead.safetensors", LOCATION, {
    signal: controller.signal, open: { fetch: server.fetch, cache: "none" },
  });
  const session = outputs(ort, graph, aborted.externalData);
  controller.abort(new Error("not needed"));
  await failures.rejects("an aborted session", session, ": ");
  const sent = server.sent();
  await new Promise((resolve) => setTimeout(resolve, 300));
  failures.same("bytes after the abort", server.sent() - sent <= 65_536, true);
  aborted.close();

  for (const [what, options] of [["a graph", { graph: "model.onnx" }], ["an option", { readahead: 1 }]]) {
    try {
      prepare("/ahead.safetensors", LOCATION, options).close();
      failures.same(`${what} is refused`, true, false);
    } catch (error) {
      failures.same(what, error.code, "INVALID_ARGUMENT");
    }
  }
  return failures;
}

// The second visit requests the tensors in the order in which the first one needed them, and no others.
export async function recordsTheOrder() {
  const failures = new Failures();
  if (!hasJspi()) return failures;
  await clearCache();
  const ort = await runtime("ort.jspi.min.mjs");
  const { file, graph } = model();
  const url = "/ahead-order.safetensors";
  const { fetch } = serverOf(file);
  const visit = async () => {
    const loader = await StreamingLoader.open(url, { fetch });
    const found = await outputs(ort, graph, await externalData(loader, LOCATION));
    loader.close();
    return found;
  };
  const expected = await visit();
  const stored = async () => (await (await caches.open(ORDERS)).keys()).length;
  for (let turn = 0; turn < 100 && (await stored()) === 0; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const [key] = await (await caches.open(ORDERS)).keys();
  const order = key && await (await (await caches.open(ORDERS)).match(key)).json();
  failures.same("the tensors of the order", order?.map(([start, end]) => end - start).sort((a, b) => a - b), [
    COLUMNS * 4, ROWS * COLUMNS * 4,
  ]);
  failures.same("the second visit", await visit(), expected);
  await clearCache();
  failures.same("after clearCache", await caches.has(ORDERS), false);
  return failures;
}
