// LiteRT.js, unpatched: a TFLite model whose stream comes through the package computes what it does with plain bytes.
import { COLUMNS, ROWS } from "./graph.js";
import { linearModel } from "./tflite.js";

const { clearCache, openFile } = await import("/pkg/weightstream.js");
const { Failures, RETRY, hex, serverOf } = await import("/files/common.js");
const { Tensor, loadAndCompile, loadLiteRt } = await import("/npm/@litertjs/core/dist/index.js");

let loading;
const loaded = () => (loading ??= loadLiteRt("/npm/@litertjs/core/wasm/"));

const weights = Float32Array.from({ length: ROWS * COLUMNS }, (_, at) => Math.sin(at * 12.9898) / 2);
const bias = Float32Array.from({ length: COLUMNS }, (_, at) => Math.cos(at));
const x = Float32Array.from({ length: ROWS }, (_, at) => Math.sin(at));

// `source` is a file in memory, or the reader of a stream, which `loadAndCompile` takes too.
async function outputs(source) {
  await loaded();
  const model = await loadAndCompile(source, { accelerator: "wasm" });
  const input = new Tensor(x, [1, ROWS]);
  const [output] = await model.run(input);
  const values = Array.from(await output.data());
  for (const used of [input, output, model]) used.delete();
  return values;
}

const open = (fetch, options) => openFile("/linear.tflite", { fetch, cache: "none", retry: RETRY, ...options });

export async function computesWhatItDoesWithPlainBytes() {
  const failures = new Failures();
  const bytes = linearModel(weights, bias);
  const expected = await outputs(bytes);
  const exact = Array.from(bias, (sum, column) =>
    x.reduce((sum, value, row) => sum + value * weights[column * ROWS + row], sum));
  failures.same("outputs", expected.every((value, at) => Math.abs(value - exact[at]) < 1e-3), true);

  const server = serverOf(bytes, (number) => (number > 0 && number < 4 ? { cutAfter: 300_000 } : {}));
  const file = await open(server.fetch, { digest: `sha256:${await hex(bytes)}` });
  failures.same("over connections that break", await outputs(file.stream().getReader()), expected);
  file.close();
  failures.same(`bytes sent (${server.sent()} of ${bytes.length})`, server.sent() < bytes.length * 1.2, true);
  return failures;
}

export async function aSecondLoadComesFromTheCache() {
  const failures = new Failures();
  await clearCache();
  const bytes = linearModel(weights, bias);
  const server = serverOf(bytes);
  const load = async () => {
    const file = await open(server.fetch, { cache: "auto" });
    const values = await outputs(file.stream().getReader());
    file.close();
    return values;
  };
  const cold = await load();
  const sent = server.sent();
  failures.same("the same outputs", await load(), cold);
  failures.same("bytes sent again", server.sent() - sent <= 1, true); // one byte may check the version
  await clearCache();
  return failures;
}

export async function wrongBytesAreRefused() {
  const failures = new Failures();
  const bytes = linearModel(weights, bias);
  const file = await open(serverOf(bytes).fetch, { digest: `sha256:${"0".repeat(64)}` });
  await failures.rejects("a wrong digest", outputs(file.stream().getReader()), "CHECKSUM");
  file.close();
  const closed = await open(serverOf(bytes).fetch);
  const reader = closed.stream().getReader();
  closed.close();
  await failures.rejects("a closed file", outputs(reader), "CLOSED");
  failures.same("loads again", (await outputs(bytes)).length, COLUMNS);
  return failures;
}
