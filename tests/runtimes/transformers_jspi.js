// transformers.js, unpatched, with the JSPI build of ONNX Runtime, which the import map of the page selects: it reads
// weights on demand, and not a file as a whole.
import { COLUMNS, ROWS, linearGraph } from "./graph.js";

const { openFile } = await import("/pkg/weightstream.js");
const { externalData, prepare } = await import("/pkg/weightstream.onnxruntime.js");
const { connect } = await import("/pkg/weightstream.transformers.js");
const { Failures, serverOf } = await import("/files/common.js");
const { AutoModel, LogLevel, env } = await import("/npm/@huggingface/transformers/dist/transformers.web.js");
const { Tensor } = await import("onnxruntime-common");

env.logLevel = LogLevel.ERROR;
env.remoteHost = location.origin;
env.backends.onnx.wasm.numThreads = 1;
env.backends.onnx.wasm.wasmPaths = {
  mjs: "/npm/onnxruntime-web/dist/ort-wasm-simd-threaded.jspi.mjs",
  wasm: "/npm/onnxruntime-web/dist/ort-wasm-simd-threaded.jspi.wasm",
};

const PADDING = 4_000_000;
const WEIGHTS = ROWS * COLUMNS * 4;
const BIAS = COLUMNS * 4;

let models = 0;

// The outputs of a graph whose weights are external data.
async function outputs(graph, externalData) {
  const files = { "config.json": new TextEncoder().encode('{ "model_type": "bert" }'), "onnx/model.onnx": graph };
  const disconnect = connect(env, {
    cache: "none",
    fetch: async (url, init) => {
      const name = Object.keys(files).find((name) => String(url).endsWith(`/${name}`));
      return name ? serverOf(files[name]).fetch(url, init) : globalThis.fetch(url, init);
    },
  });
  try {
    const session_options = { externalData };
    const model = await AutoModel.from_pretrained(`test/jspi-${models++}`, { dtype: "fp32", session_options });
    const [session] = Object.values(model.sessions);
    const x = Float32Array.from({ length: ROWS }, (_, at) => Math.sin(at));
    const { y } = await session.run({ x: new Tensor("float32", x, [1, ROWS]) });
    await model.dispose();
    return Array.from(y.data);
  } finally {
    disconnect();
  }
}

const weights = () => Float32Array.from({ length: (WEIGHTS + BIAS) / 4 }, (_, at) => Math.sin(at * 12.9898) / 2);

export async function readsOnlyTheWeightsOfAFile() {
  const failures = new Failures();
  const file = new Uint8Array(PADDING + WEIGHTS + BIAS + PADDING);
  file.set(new Uint8Array(weights().buffer), PADDING);
  const graph = linearGraph("weights.bin", { offset: PADDING, length: WEIGHTS },
    { offset: PADDING + WEIGHTS, length: BIAS });
  const expected = await outputs(graph, [{ path: "weights.bin", data: file }]);
  failures.same("outputs", [expected.length, new Set(expected).size > 200], [COLUMNS, true]);

  const server = serverOf(file, (number) => (number > 0 && number < 4 ? { cutAfter: 300_000 } : {}));
  const remote = await openFile("/jspi.bin", {
    fetch: server.fetch, cache: "none", retry: { attempts: 3, baseDelay: 1 },
  });
  const found = await outputs(graph, await externalData(remote, "weights.bin", { graph }));
  failures.same("the same outputs", found, expected);
  remote.close();
  const sent = server.sent();
  failures.same(`bytes sent (${sent} of ${file.length})`, sent <= WEIGHTS + BIAS + 500_000, true);
  return failures;
}

export async function takesPreparedWeights() {
  const failures = new Failures();
  const file = new Uint8Array(await (await fetch("/linear/model.safetensors")).arrayBuffer());
  const headerLength = Number(new DataView(file.buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + headerLength)));
  const placeOf = ({ data_offsets: [start, end] }) => ({ offset: 8 + headerLength + start, length: end - start });
  const graph = linearGraph("model.safetensors", placeOf(header.W), placeOf(header.b));
  const expected = await outputs(graph, [{ path: "model.safetensors", data: file }]);
  const prepared = prepare("/linear/model.apr", "model.safetensors", { open: { cache: "none" } });
  failures.same("the same outputs", await outputs(graph, prepared.externalData), expected);
  const { stats } = await prepared.loader;
  failures.same("bytes are compressed", stats.bytesReceived < file.length, true);
  prepared.close();
  return failures;
}
