// ONNX Runtime Web, unpatched: sessions whose weights come through the package compute what they do with plain weights.
import { COLUMNS, ROWS, linearGraph } from "./graph.js";
import { compareModel, outputs } from "./linear.js";

const { openFile } = await import("/pkg/weightstream.js");
const { externalData } = await import("/pkg/weightstream.onnxruntime.js");
const { Failures, serverOf } = await import("/files/common.js");

const LOCATION = "weights.bin";
const OFFSET = 3_000_000;
const FILE_BYTES = 8_000_000;

// Random weights in the middle of a file of other bytes.
function fileOfWeights() {
  const values = Float32Array.from({ length: (ROWS + 1) * COLUMNS }, () => Math.random() - 0.5);
  const file = new Uint8Array(FILE_BYTES).fill(7);
  file.set(new Uint8Array(values.buffer), OFFSET);
  const weights = { offset: OFFSET, length: ROWS * COLUMNS * 4 };
  const bias = { offset: OFFSET + weights.length, length: COLUMNS * 4 };
  return { file, graph: linearGraph(LOCATION, weights, bias), payload: weights.length + bias.length };
}

async function compare(build, { isLazy }) {
  const failures = new Failures();
  const ort = await import(`/npm/onnxruntime-web/dist/${build}`);
  ort.env.wasm.wasmPaths = "/npm/onnxruntime-web/dist/";
  ort.env.wasm.numThreads = 1;
  const { file, graph, payload } = fileOfWeights();
  const expected = await outputs(ort, graph, [{ path: LOCATION, data: file }]);
  failures.same("outputs", [expected.length, expected.every(Number.isFinite), new Set(expected).size > 700],
    [COLUMNS, true, true]);

  // The first responses break off.
  const server = serverOf(file, (number) => (number > 0 && number < 4 ? { cutAfter: 400_000 } : {}));
  const remote = await openFile("/weights.bin", {
    fetch: server.fetch, cache: "none", retry: { attempts: 3, baseDelay: 1 },
  });
  const ends = [];
  const onProgress = ({ done, outcome, loaded }) => done && ends.push([outcome, loaded > 0]);
  const observed = await externalData(remote, LOCATION, { onProgress });
  failures.same("the same outputs", await outputs(ort, graph, observed), expected);
  const limit = isLazy ? payload + 600_000 : FILE_BYTES * 1.2;
  failures.same(`bytes sent (${server.sent()} of ${FILE_BYTES})`, server.sent() <= limit, true);
  remote.close();
  failures.same("the end of reading", ends, [["done", true]]);
  return failures;
}

// Firefox has JSPI from 153 on.
const hasJspi = () => WebAssembly.Suspending !== undefined || navigator.userAgent.includes("Chrome");

export const jspi = () => (hasJspi() ? compare("ort.jspi.min.mjs", { isLazy: true }) : new Failures());

export const wasm = () => compare("ort.wasm.min.mjs", { isLazy: false });

export const modelWithJspi = () => (hasJspi() ? compareModel("ort.jspi.min.mjs") : new Failures());

export const modelWithWasm = () => compareModel("ort.wasm.min.mjs");

export async function damagedWeights() {
  const failures = new Failures();
  const ort = await import("/npm/onnxruntime-web/dist/ort.wasm.min.mjs");
  ort.env.wasm.wasmPaths = "/npm/onnxruntime-web/dist/";
  ort.env.wasm.numThreads = 1;
  const { file, graph } = fileOfWeights();
  const remote = await openFile("/weights.bin", {
    fetch: serverOf(file).fetch, cache: "none", digest: `sha256:${"0".repeat(64)}`,
  });
  await failures.rejects("a session", outputs(ort, graph, await externalData(remote, LOCATION)), "sha256");
  await failures.rejects("a wrong argument", externalData({}, LOCATION), "INVALID_ARGUMENT");
  await failures.rejects("a wrong path", externalData(remote, ""), "INVALID_ARGUMENT");
  const controller = new AbortController();
  const aborted = await externalData(remote, LOCATION, { signal: controller.signal });
  controller.abort(new Error("not needed any more"));
  await failures.rejects("an abort", outputs(ort, graph, aborted), "not needed any more");
  return failures;
}
