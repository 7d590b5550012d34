// TensorFlow.js, unpatched: models whose files come through the package have the weights and the outputs that they have
// with its own loader.
import { graphModel, layersModel, oddWeights, sharded } from "./tfjs_models.js";
import { faceapi, sameTensors, tf } from "./tfjs_runtime.js";

const { StreamingLoader, clearCache } = await import("/pkg/weightstream.js");
const { ioHandler } = await import("/pkg/weightstream.tfjs.js");
const { Failures, RETRY, hex, serverOfFiles } = await import("/files/common.js");

const MODELS = "/npm/@vladmandic/face-api/model/";
const NETS = [
  "age_gender", "face_expression", "face_landmark_68", "face_landmark_68_tiny", "face_recognition", "ssd_mobilenetv1",
  "tiny_face_detector",
];

const bytesAt = async (url) => new Uint8Array(await (await fetch(url)).arrayBuffer());

async function filesOf(net) {
  const names = [`${net}_model-weights_manifest.json`, `${net}_model.bin`];
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await bytesAt(MODELS + name)])));
}

const options = (server, others) => ({ fetch: server.fetch, cache: "none", retry: RETRY, ...others });

const cutOften = () => {
  let breaks = 0;
  const script = (number) => (number > 0 && breaks++ < 5 ? { cutAfter: 300_000 } : {});
  return [script, () => breaks];
};

export async function weightsOfFaceApi() {
  const failures = new Failures();
  for (const net of NETS) {
    const files = await filesOf(net);
    const [manifest] = Object.keys(files);
    const expected = await tf.io.loadWeights(JSON.parse(new TextDecoder().decode(files[manifest])), MODELS);
    const [script, breaks] = cutOften();
    const server = serverOfFiles(files, script);
    const { weightData, weightSpecs } = await ioHandler(`/${manifest}`, options(server)).load();
    const count = await sameTensors(failures, net, tf.io.decodeWeights(weightData, weightSpecs), expected);
    failures.same(`${net}: tensors`, count > 0, true);
    failures.same(`${net}: connections broke`, server.sent() < 400_000 || breaks() > 0, true);
    const { getWeightStream } = await ioHandler(`/${manifest}`, options(server, { streamWeights: true })).load();
    const streamed = await tf.io.decodeWeightsStream(getWeightStream(), weightSpecs);
    await sameTensors(failures, `${net}, streamed`, streamed, expected);
    for (const tensors of [expected, streamed]) tf.dispose(tensors);
  }
  return failures;
}

export async function outputsOfFaceApi() {
  const failures = new Failures();
  const canvas = new OffscreenCanvas(112, 112);
  const context = canvas.getContext("2d");
  for (let at = 0; at < 112; at++) {
    context.fillStyle = `rgb(${at * 2}, ${(at * 37) % 255}, ${255 - at})`;
    context.fillRect(at, (at * 29) % 112, 40, 30);
  }
  const { data } = context.getImageData(0, 0, 112, 112);
  const pixels = faceapi.tf.tensor3d(Array.from(data).filter((_, at) => at % 4 < 3), [112, 112, 3]);
  const expressions = async (net) => {
    const batch = faceapi.tf.expandDims(pixels).toFloat();
    return Array.from(await net.runNet(new faceapi.NetInput([batch])).data());
  };
  const own = new faceapi.FaceExpressionNet();
  await own.loadFromUri(MODELS);
  const expected = await expressions(own);
  failures.same("it computes something", [expected.length, expected.every(Number.isFinite)], [7, true]);

  const files = await filesOf("face_expression");
  const [manifest] = Object.keys(files);
  const { weightData, weightSpecs } = await ioHandler(`/${manifest}`, options(serverOfFiles(files))).load();
  const net = new faceapi.FaceExpressionNet();
  net.loadFromWeightMap(faceapi.tf.io.decodeWeights(weightData, weightSpecs));
  failures.same("the same outputs", await expressions(net), expected);
  return failures;
}

const predictions = async (model) => {
  const x = tf.tensor2d(Array.from({ length: 300 }, (_, at) => Math.sin(at)), [1, 300]);
  return Array.from(await model.predict(x).data());
};

// The own loader of TensorFlow.js reads a single file of weights.
async function ownLoad({ json, weights }, load = tf.loadGraphModel) {
  const files = sharded({ json, weights }, [weights.length]);
  const server = serverOfFiles(files);
  const fetchFunc = (url, init) => server.fetch(url, init ?? {});
  return load((faceapi.tf ?? tf).io.http(new URL("/model.json", location.href).href, { fetchFunc }));
}

// Files of weights of several sizes, among them one that is larger than all before it.
export async function graphModels() {
  const failures = new Failures();
  const model = graphModel();
  const own = await ownLoad(model);
  const expected = await predictions(own);
  failures.same("it computes something", [expected.length, new Set(expected).size > 5], [10, true]);
  for (const lengths of [[Infinity], [1000, 1000, Infinity], [1, 2, 3, 70_000, 0, Infinity], Array(40).fill(9999)]) {
    const what = `files of ${lengths.slice(0, 6)}`;
    const [script, breaks] = cutOften();
    const server = serverOfFiles(sharded(model, [...lengths, Infinity]), script);
    for (const streamWeights of [undefined, false]) {
      const loaded = await tf.loadGraphModel(ioHandler("/model.json", options(server, { streamWeights })));
      failures.same(`${what}: the same outputs`, await predictions(loaded), expected);
      const names = Object.keys(own.weights);
      for (const name of names) {
        await sameTensors(failures, what, { [name]: loaded.weights[name][0] }, { [name]: own.weights[name][0] });
      }
      failures.same("weights", Object.keys(loaded.weights).length, names.length);
      loaded.dispose();
    }
    failures.same("connections broke", breaks() > 0 || lengths.length > 1, true);
  }
  return failures;
}

export async function layersModels() {
  const failures = new Failures();
  const model = await layersModel(faceapi.tf);
  const run = async (layers) => {
    const x = faceapi.tf.tensor2d(Array.from({ length: 300 }, (_, at) => Math.sin(at)), [1, 300]);
    return Array.from(await layers.predict(x).data());
  };
  const expected = await run(await ownLoad(model, faceapi.tf.loadLayersModel));
  const server = serverOfFiles(sharded(model, [50, 50, Infinity]));
  const loaded = await faceapi.tf.loadLayersModel(ioHandler("/model.json", options(server)));
  const outputs = await run(loaded);
  failures.same("the same outputs", outputs, expected);
  failures.same("it computes something", [outputs.length, outputs.every(Number.isFinite)], [4, true]);
  return failures;
}

// Strings, all quantizations, scalars, empty weights, and several groups of files.
export async function everyKindOfWeight() {
  const failures = new Failures();
  const { groups, json } = oddWeights();
  const files = { "model.json": json };
  for (const { path, bytes } of groups) files[path] = bytes;
  const all = groups.map(({ bytes }) => bytes);
  const specs = JSON.parse(new TextDecoder().decode(json)).flatMap(({ weights }) => weights);
  const whole = await new Blob(all).arrayBuffer();
  const expected = tf.io.decodeWeights(whole, specs);
  const server = serverOfFiles(files);
  const { weightData, weightSpecs } = await ioHandler("/model.json", options(server)).load();
  await sameTensors(failures, "in memory", tf.io.decodeWeights(weightData, weightSpecs), expected);
  const { getWeightStream } = await ioHandler("/model.json", options(server, { streamWeights: true })).load();
  for (const attempt of ["a stream", "a second stream"]) {
    const streamed = await tf.io.decodeWeightsStream(getWeightStream(), weightSpecs);
    failures.same(attempt, await sameTensors(failures, attempt, streamed, expected), specs.length);
  }
  return failures;
}

const filesNamed = (files) => Object.entries(files).map(([name, bytes]) => new File([bytes], name));

// A model that is open gives what the own loader of TensorFlow.js has: from local files, and converted by the CLI.
export async function openModels() {
  const failures = new Failures();
  const model = graphModel();
  const own = await ownLoad(model);
  const expected = await predictions(own);
  const files = sharded(model, [1000, 70_001, Infinity]);
  const sources = { "local files": filesNamed(files), converted: "/graph/model.zt" };
  for (const [what, source] of Object.entries(sources)) {
    const loader = await StreamingLoader.open(source, { cache: "none" });
    for (const streamWeights of [undefined, false]) {
      const fractions = [];
      const options = { streamWeights, onProgress: (fraction) => fractions.push(fraction) };
      const loaded = await tf.loadGraphModel(ioHandler(loader, options));
      failures.same(`${what}: the same outputs`, await predictions(loaded), expected);
      failures.same(`${what}: progress`, [fractions.length, fractions.at(-1)], [Object.keys(own.weights).length, 1]);
      for (const [name, [weight]] of Object.entries(own.weights)) {
        await sameTensors(failures, what, { [name]: loaded.weights[name][0] }, { [name]: weight });
      }
      loaded.dispose();
    }
    loader.close();
    await failures.rejects(`${what}: closed`, ioHandler(loader).load(), "CLOSED");
  }
  return failures;
}

export async function everyDtypeOfOpenModels() {
  const failures = new Failures();
  const { groups, json } = oddWeights();
  const manifest = JSON.parse(new TextDecoder().decode(json));
  const [flags, complex] = groups[0].specs.slice(2);
  manifest[0].weights = [groups[0].specs[0], flags, complex];
  const bytes = groups[0].bytes.slice(-19); // without the strings
  const files = { "model.json": new TextEncoder().encode(JSON.stringify({ weightsManifest: manifest })) };
  Object.assign(files, { "part0.bin": bytes, "part1.bin": groups[1].bytes });
  const specs = manifest.flatMap(({ weights }) => weights);
  const whole = await new Blob([bytes, groups[1].bytes]).arrayBuffer();
  const expected = tf.io.decodeWeights(whole, specs);
  const loader = await StreamingLoader.open(filesNamed(files));
  const { weightData, weightSpecs } = await ioHandler(loader).load();
  await sameTensors(failures, "in memory", tf.io.decodeWeights(weightData, weightSpecs), expected);
  const { getWeightStream } = await ioHandler(loader, { streamWeights: true }).load();
  for (const attempt of ["a stream", "a second stream"]) {
    await sameTensors(failures, attempt, await tf.io.decodeWeightsStream(getWeightStream(), weightSpecs), expected);
  }
  const reader = getWeightStream().getReader();
  await reader.read();
  await reader.cancel();
  loader.close();
  return failures;
}

// Codes that an adapter updates are floats, and texts have no position that a loader knows.
export async function adaptersAndTexts() {
  const failures = new Failures();
  const quantization = { dtype: "uint8", scale: 0.5, min: -3 };
  const weights = [
    { name: "foo.weight", shape: [2, 2], dtype: "float32", quantization },
    { name: "bar", shape: [2], dtype: "float32", quantization },
  ];
  const model = { weightsManifest: [{ paths: ["a.bin"], weights }] };
  const json = (value) => new TextEncoder().encode(JSON.stringify(value));
  const files = { "model.json": json(model), "a.bin": Uint8Array.of(1, 2, 3, 4, 8, 10) };
  const entry = (at, shape) => ({ dtype: "F32", shape, data_offsets: [at * 8, at * 8 + 8] });
  const [a, b] = ["A", "B"].map((factor) => `base_model.model.foo.lora_${factor}.weight`);
  const factors = json({ [a]: entry(0, [1, 2]), [b]: entry(1, [2, 1]) });
  const source = new File([BigUint64Array.of(BigInt(factors.length)), factors, Float32Array.of(1, 2, 3, 4)], "a");
  const config = { peft_type: "LORA", r: 1, lora_alpha: 1 };
  const loader = await StreamingLoader.open(filesNamed(files), { adapters: [{ source, config }] });
  const { data } = await loader.loadTensor("foo.weight", { as: "F32" });
  failures.same("the update is added", Array.from(data), [-2.5 + 3, -2 + 6, -1.5 + 4, -1 + 8]);
  const { weightData, weightSpecs } = await ioHandler(loader).load();
  const { getWeightStream } = await ioHandler(loader, { streamWeights: true }).load();
  const streamed = await tf.io.decodeWeightsStream(getWeightStream(), weightSpecs);
  for (const decoded of [tf.io.decodeWeights(weightData, weightSpecs), streamed]) {
    failures.same("foo", Array.from(await decoded["foo.weight"].data()), Array.from(data));
    failures.same("bar", Array.from(await decoded.bar.data()), [1, 2]);
  }
  const named = (name, dtype) => ({ name, shape: [1], dtype });
  const all = [named("first", "float32"), named("text", "string"), named("last", "float32")];
  const withTexts = { "model.json": json({ weightsManifest: [{ paths: ["a.bin"], weights: all }] }) };
  withTexts["a.bin"] = Uint8Array.of(0, 0, 128, 63, 1, 0, 0, 0, 65, 0, 0, 0, 64);
  const texts = await StreamingLoader.open(filesNamed(withTexts));
  await failures.rejects("texts", ioHandler(texts).load(), "UNSUPPORTED", "texts", "URL");
  return failures;
}

// Floats that TensorFlow.js lacks become F32, as `loadTensor` converts them, and integers that it lacks are refused.
export async function dtypesThatTensorFlowLacks() {
  const failures = new Failures();
  const loader = await StreamingLoader.open(safetensors({ a: "BF16", b: "F16", c: "U8", d: "F32" }));
  const { weightData, weightSpecs } = await ioHandler(loader).load();
  const decoded = tf.io.decodeWeights(weightData, weightSpecs);
  for (const name of ["a", "b", "d"]) {
    const { data } = await loader.loadTensor(name, { as: "F32" });
    failures.same(name, [decoded[name].dtype, Array.from(await decoded[name].data())], ["float32", Array.from(data)]);
  }
  const { data } = await loader.loadTensor("c");
  failures.same("c", [decoded.c.dtype, Array.from(await decoded.c.data())], ["int32", Array.from(data)]);
  for (const dtype of ["I64", "U32", "I8"]) {
    const integers = ioHandler(await StreamingLoader.open(safetensors({ "a.b": dtype })));
    await failures.rejects(dtype, integers.load(), "UNSUPPORTED", "a.b", dtype);
  }
  const aborted = ioHandler(loader, { signal: AbortSignal.abort(new Error("the user left")) });
  await failures.rejects("aborted", aborted.load(), "the user left");
  const thrown = async (call) => call();
  await failures.rejects("an option of URLs", thrown(() => ioHandler(loader, { retry: {} })), "INVALID_ARGUMENT",
    "`retry`");
  return failures;
}

// A file with tensors of these dtypes. Each has 16 bytes.
function safetensors(dtypes) {
  const sizes = { BF16: 2, F16: 2, F32: 4, I64: 8, U32: 4 };
  const entry = ([name, dtype], at) =>
    [name, { dtype, shape: [16 / (sizes[dtype] ?? 1)], data_offsets: [at * 16, at * 16 + 16] }];
  const header = new TextEncoder().encode(JSON.stringify(Object.fromEntries(Object.entries(dtypes).map(entry))));
  const length = BigUint64Array.of(BigInt(header.length));
  const data = Uint8Array.from({ length: 16 * Object.keys(dtypes).length }, (_, at) => (at * 37) & 127);
  return new File([length, header, data], "a.safetensors");
}

export async function aSecondLoadComesFromTheCache() {
  const failures = new Failures();
  await clearCache();
  const model = graphModel();
  const files = sharded(model, [100_000, 100_000, Infinity]);
  const load = (server) => tf.loadGraphModel(ioHandler("/model.json", options(server, { cache: "auto" })));
  const expected = await predictions(await load(serverOfFiles(files)));
  const server = serverOfFiles(files);
  failures.same("the same outputs", await predictions(await load(server)), expected);
  // One byte of each file may be requested, to check that the file is unchanged.
  failures.same("requests and bytes", [server.requests().length <= 4, server.sent() <= 4], [true, true]);
  await clearCache();
  return failures;
}

export async function progress() {
  const failures = new Failures();
  const fractions = [];
  const server = serverOfFiles(sharded(graphModel(), [100_000, Infinity]));
  await tf.loadGraphModel(ioHandler("/model.json", options(server, { onProgress: (part) => fractions.push(part) })));
  failures.same("ends", fractions.at(-1), 1);
  failures.same("steps", fractions.length > 1, true);
  const rises = fractions.every((part, at) => part > 0 && part <= 1 && part >= (fractions[at - 1] ?? 0));
  failures.same("rises", rises, true);
  return failures;
}

export async function damagedModels() {
  const failures = new Failures();
  const model = graphModel();
  const files = sharded(model, [100_000, 50_000, Infinity]);
  const names = Object.keys(files);
  const load = (given, others) => tf.loadGraphModel(ioHandler("/model.json", options(serverOfFiles(given), others)));
  const both = async (what, given, ...wanted) => {
    for (const streamWeights of [true, false]) await failures.rejects(what, load(given, { streamWeights }), ...wanted);
  };
  const { [names[2]]: _, ...missing } = files;
  await both("a missing file", missing, "HTTP", "404", names[2]);
  const last = files[names[3]];
  const short = { ...files, [names[3]]: last.subarray(0, -1) };
  await both("a short file", short, "FORMAT", names[3], "1 bytes before the end");
  const long = new Uint8Array(last.length + 3);
  long.set(last);
  await both("a long file", { ...files, [names[3]]: long }, "FORMAT", names[3], "more bytes");
  const text = (json) => ({ ...files, "model.json": new TextEncoder().encode(JSON.stringify(json)) });
  await both("no model", text({ a: 1 }), "FORMAT", "modelTopology");
  await both("no JSON", { ...files, "model.json": new TextEncoder().encode("<html>") }, "FORMAT", "JSON");
  const weight = { name: "w", shape: [1], dtype: "float64" };
  await both("a data type", text({ weightsManifest: [{ paths: ["a"], weights: [weight] }] }), "UNSUPPORTED", "float64");
  for (const weightsManifest of [{}, [{}], [{ paths: [1], weights: [] }], [{ paths: ["a"], weights: [{}] }]]) {
    await both("a manifest", text({ weightsManifest }), "FORMAT");
  }
  const huge = { ...weight, dtype: "float32", shape: [2 ** 49] };
  await both("a huge weight", text({ weightsManifest: [{ paths: ["a"], weights: [huge] }] }), "LIMIT");
  const wrong = `sha256:${"0".repeat(64)}`;
  await failures.rejects("a digest", load(files, { digests: { [names[2]]: wrong } }), "CHECKSUM", names[2]);
  await failures.rejects("a digest", load(files, { digests: { "model.json": wrong } }), "CHECKSUM", "model.json");
  await failures.rejects("a digest of no file", load(files, { digests: { "b.bin": wrong } }), "NOT_FOUND", "b.bin");
  const digests = Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, `sha256:${await hex(files[name])}`])));
  failures.same("digests", (await predictions(await load(files, { digests }))).length, 10);
  return failures;
}

export async function urlsOfWeights() {
  const failures = new Failures();
  const files = sharded(graphModel(), [100_000, Infinity]);
  const requested = [];
  const server = serverOfFiles(files);
  const fetch = (url, init) => {
    const { pathname, search, origin } = new URL(url);
    const secret = new Headers(init.headers).get("X-Secret") ?? "";
    requested.push(`${origin === location.origin ? "" : origin}${pathname}${search} ${secret}`);
    return server.fetch(url, init);
  };
  const load = async (url, others) => {
    requested.length = 0;
    const given = { ...options({ fetch }), headers: { "X-Secret": "1" }, ...others };
    await tf.loadGraphModel(ioHandler(new URL(url, location.href), given));
    return [...new Set(requested)].sort();
  };
  failures.same("beside the model", await load("/a/model.json?key=1"),
    ["/a/group1-shard1of2.bin?key=1 1", "/a/group1-shard2of2.bin?key=1 1", "/a/model.json?key=1 1"]);
  failures.same("another origin gets no headers", await load("/a/model.json", { weightPathPrefix: "https://b.test/" }),
    ["/a/model.json 1", "https://b.test/group1-shard1of2.bin ", "https://b.test/group1-shard2of2.bin "]);
  failures.same("converted", await load("/a/model.json", { weightUrlConverter: async (path) => `/c/${path}` }),
    ["/a/model.json 1", "/c/group1-shard1of2.bin 1", "/c/group1-shard2of2.bin 1"]);
  return failures;
}

export async function abort() {
  const failures = new Failures();
  const files = sharded(graphModel(), [100_000, Infinity]);
  const reason = new Error("the user left");
  for (const streamWeights of [true, false]) {
    const controller = new AbortController();
    const server = serverOfFiles(files, (_, url) => (url.includes("2of2") ? (controller.abort(reason), {}) : {}));
    const given = options(server, { signal: controller.signal, streamWeights });
    await failures.rejects("during the load", tf.loadGraphModel(ioHandler("/model.json", given)), "the user left");
    await failures.rejects("before", ioHandler("/model.json", given).load(), "the user left");
  }
  const server = serverOfFiles(files, (_, url) => (url.includes("2of2") ? { delay: 20 } : {}));
  const { getWeightStream } = await ioHandler("/model.json", options(server)).load();
  const reader = getWeightStream().getReader();
  await reader.read();
  await reader.cancel();
  const running = server.requests().filter(({ start, end, sent, isAborted }) => sent < end - start && !isAborted);
  failures.same("requests after a stream is cancelled", running, []);
  return failures;
}

export async function wrongArguments() {
  const failures = new Failures();
  const thrown = async (call) => call();
  await failures.rejects("no URL", thrown(() => ioHandler(1)), "INVALID_ARGUMENT");
  await failures.rejects("an unknown option", thrown(() => ioHandler("/m", { cach: 1 })), "INVALID_ARGUMENT",
    "`cache`");
  for (const [name, value] of Object.entries({
    streamWeights: 1, onProgress: {}, weightPathPrefix: 1, weightUrlConverter: "/", digests: { a: "b" }, headers: 7,
  })) await failures.rejects(name, thrown(() => ioHandler("/m", { [name]: value })), "INVALID_ARGUMENT", name);
  return failures;
}
