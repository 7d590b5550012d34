// Graphs whose parts compute while the weights of later ones arrive.
import { BUILDS, outputs, run, runtimeOf } from "./published.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");
const { streamed } = await import("/pkg/weightstream.onnxruntime.js");
const { Failures, serverOfFiles } = await import("/files/common.js");

const SESSION = { executionProviders: ["wasm"] };
const OPEN = { cache: "none" };

async function original(ort, name) {
  return outputs(ort, await ort.InferenceSession.create(`/onnx/${name}/original.onnx`, SESSION));
}

// The largest difference of two outputs, relative to their largest value. Optimizations of ONNX Runtime do not reach
// across parts, so that sums may be rounded in another order.
function difference(found, expected) {
  const differences = Object.entries(expected).map(([name, [dims, data]]) => {
    const [foundDims, foundData] = found[name] ?? [[], []];
    if (JSON.stringify(dims) !== JSON.stringify(foundDims)) return Infinity;
    const scale = Math.max(...data.map(Math.abs));
    return Math.max(...data.map((value, at) => Math.abs(value - foundData[at]))) / scale;
  });
  return Math.max(...differences);
}

// ONNX Runtime, and what it does: "create" and "run" of each session, in their order.
function recorded(ort) {
  const events = [];
  let sessions = 0;
  const create = async (graph, options) => {
    const number = sessions++;
    const session = await ort.InferenceSession.create(graph, options);
    events.push(`create ${number}`);
    return {
      async run(...given) {
        events.push(`run ${number}`);
        return session.run(...given);
      },
      release: () => session.release().then(() => void events.push(`release ${number}`)),
    };
  };
  return { events, runtime: { InferenceSession: { create } } };
}

async function compare(name, parts) {
  const failures = new Failures();
  for (const build of BUILDS) {
    const ort = await runtimeOf(build);
    const expected = await original(ort, name);
    const { events, runtime } = recorded(ort);
    const given = { ort: Promise.resolve(runtime), session: SESSION, open: OPEN };
    const session = await streamed(`/onnx/${name}/model.onnx`, given);
    failures.same("outputs", [...session.outputNames].sort(), Object.keys(expected).sort());
    const found = await run(ort, session);
    const worst = difference(found, expected);
    failures.same(`${name} with ${build}: ${worst}`, worst < 1e-5, true);
    const each = Array.from({ length: parts }, (_, at) => [`create ${at}`, `run ${at}`]).flat();
    failures.same(`${build}: each part computes when it is there`, events, each);
    await session.loaded;
    failures.same("a second call", JSON.stringify(await run(ort, session)), JSON.stringify(found));
    await session.release();
    failures.same("released", events.filter((event) => event.startsWith("release")).length, parts);
    await failures.rejects("a released session", run(ort, session), "CLOSED");
  }
  return failures;
}

export const minilmInt8 = () => compare("minilm-int8", 7);

export const paraphrase = () => compare("paraphrase", 4);

export const sileroVad = () => compare("silero-vad", 1);

async function filesOf(name) {
  const bytes = async (file) => new Uint8Array(await (await fetch(`/onnx/${name}/${file}`)).arrayBuffer());
  return { "model.onnx": await bytes("model.onnx"), "model.apr": await bytes("model.apr") };
}

// The last weights are sent only after the first layers have computed. All bytes are sent once.
export async function computesWhileWeightsArrive() {
  const failures = new Failures();
  const files = await filesOf("paraphrase");
  for (const build of BUILDS) {
    const ort = await runtimeOf(build);
    const { events, runtime } = recorded(ort);
    const server = serverOfFiles(files);
    const { fetch } = server;
    const held = files["model.apr"].length - 1_000_000;
    const hasComputed = async () => {
      for (let turn = 0; turn < 1000 && !events.includes("run 1"); turn++) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    };
    let missing = "";
    const slow = async (url, init) => {
      const response = await fetch(url, init);
      const start = Number(/bytes (\d+)/.exec(response.headers.get("Content-Range"))?.[1] ?? 0);
      let at = start;
      const hold = new TransformStream({
        async transform(chunk, controller) {
          if (at + chunk.length > held && String(url).endsWith(".apr")) {
            await hasComputed();
            missing ||= events.at(-1);
          }
          at += chunk.length;
          controller.enqueue(chunk);
        },
      });
      const { status, headers } = response;
      return new Response(response.body.pipeThrough(hold), { status, headers });
    };
    const events2 = [];
    const session = await streamed("/streamed/model.onnx", {
      ort: runtime, session: SESSION, open: { ...OPEN, fetch: slow }, onProgress: (event) => events2.push(event),
    });
    await run(ort, session);
    failures.same(`${build}: before the last weights`, events.indexOf("run 1") < events.indexOf("create 3"), true);
    failures.same(`${build}: what had computed then`, /^(run|create) [12]$/.test(missing), true);
    const total = files["model.apr"].length + files["model.onnx"].length;
    failures.same(`${build}: bytes (${server.sent()} of ${total})`, server.sent() < total * 1.02, true);
    failures.same(`${build}: progress`, [events2.at(-1)?.done, events2.at(-1)?.outcome], [true, "done"]);
    await session.release();
  }
  return failures;
}

export async function reportsErrors() {
  const failures = new Failures();
  const ort = await runtimeOf(BUILDS[0]);
  const files = await filesOf("paraphrase");
  const opened = (fetch, more = {}) => {
    const open = { ...OPEN, fetch, retry: { attempts: 0 } };
    return streamed("/streamed/model.onnx", { ort, session: SESSION, open, ...more });
  };

  const { fetch } = serverOfFiles(files);
  await failures.rejects("no graph", opened(async () => new Response("", { status: 404 })), "HTTP", "404");
  const invalid = (what, call, named) => failures.rejects(what, call, "INVALID_ARGUMENT", named);
  await invalid("no parts", streamed("/onnx/paraphrase/original.onnx", { ort, open: OPEN }), "--by-layer");
  await invalid("no runtime", streamed("/streamed/model.onnx", { open: { fetch } }), "ort");
  await invalid("no weights", streamed(files["model.onnx"], { ort }), "weights");
  await invalid("an unknown option", opened(fetch, { open: { fetch, cached: false } }), "cached");
  await invalid("external data", opened(fetch, { session: { externalData: [] } }), "externalData");
  const signed = { signature: { url: "/model.sig", publicKey: "none" } };
  await invalid("a signature of bytes", streamed(files["model.onnx"], { ort, weights: "/m.apr", open: signed }), "");

  // Each connection breaks after 1 MB.
  const isWeights = (number, url) => String(url).endsWith(".apr") && number > 0;
  const cut = serverOfFiles(files, (...request) => (isWeights(...request) ? { cutAfter: 1e6 } : {}));
  const session = await opened(cut.fetch);
  const running = run(ort, session);
  await failures.rejects("a call", running, "NETWORK");
  await failures.rejects("its weights", session.loaded, "NETWORK");
  await failures.rejects("a later call", run(ort, session), "NETWORK");
  await session.release();

  const controller = new AbortController();
  const aborted = await opened(serverOfFiles(files, () => ({ delay: 5 })).fetch, { signal: controller.signal });
  const call = run(ort, aborted);
  controller.abort(new Error("not needed"));
  await failures.rejects("an aborted call", call, "Error", "not needed");
  await aborted.release();

  // The weights of another model are refused before anything computes.
  const other = { ...files, "model.apr": (await filesOf("silero-vad"))["model.apr"] };
  await failures.rejects("weights of another model", opened(serverOfFiles(other).fetch), "FORMAT", "bytes");

  const complete = await opened(fetch);
  await invalid("a missing input", complete.run({}), "input_ids");
  await invalid("an unknown input", complete.run({ input_ids: 0, attention_mask: 0, extra: 0 }), "extra");
  await complete.release();
  return failures;
}

// ONNX Runtime has one list of external data for all sessions, and cannot do two things at once.
export async function twoGraphsAtOnce() {
  const failures = new Failures();
  const names = ["minilm-int8", "paraphrase"];
  for (const build of BUILDS) {
    const ort = await runtimeOf(build);
    const expected = [];
    for (const name of names) expected.push(await original(ort, name));
    const sessions = names.map((name) => streamed(`/onnx/${name}/model.onnx`, { ort, session: SESSION, open: OPEN }));
    const found = await Promise.all(sessions.map(async (session) => run(ort, await session)));
    failures.same(build, found.map((outputs, at) => difference(outputs, expected[at]) < 1e-5), [true, true]);
    for (const session of sessions) await (await session).release();
  }
  return failures;
}

// What is not needed any more is not read, also with a loader of the caller.
export async function aReleaseEndsTheReads() {
  const failures = new Failures();
  const files = await filesOf("paraphrase");
  const server = serverOfFiles(files, () => ({ delay: 5 }));
  const loader = await StreamingLoader.open("/streamed/model.apr", { ...OPEN, fetch: server.fetch });
  const events = [];
  const never = new Promise(() => {});
  const onProgress = (event) => events.push(event);
  const session = await streamed(files["model.onnx"], { ort: never, weights: loader, onProgress });
  const call = run({ Tensor: class {} }, session);
  await session.release();
  await failures.rejects("the call", call, "CLOSED");
  failures.same("the last event", events.at(-1)?.done, true);
  const sent = server.sent();
  await new Promise((resolve) => setTimeout(resolve, 300));
  failures.same(`bytes after the release (${server.sent() - sent})`, server.sent() - sent < 300_000, true);
  failures.same("the loader is open", (await loader.loadIndex()).length > 10, true);
  loader.close();
  return failures;
}

// A loader of the caller stays open, and two calls that come at once end in their order.
export async function takesALoader() {
  const failures = new Failures();
  const ort = await runtimeOf(BUILDS[0]);
  const expected = await original(ort, "minilm-int8");
  const loader = await StreamingLoader.open("/onnx/minilm-int8/model.apr", { ...OPEN, inWorker: true });
  const graph = await (await fetch("/onnx/minilm-int8/model.onnx")).arrayBuffer();
  const session = await streamed(graph, { ort, weights: loader, session: SESSION });
  const order = [];
  const calls = [0, 1].map(async (number) => {
    const found = await run(ort, session);
    order.push(number);
    return difference(found, expected);
  });
  failures.same("both calls", (await Promise.all(calls)).map((worst) => worst < 1e-5), [true, true]);
  failures.same("their order", order, [0, 1]);
  await session.release();
  failures.same("the loader is open", (await loader.loadIndex()).length > 100, true);
  loader.close();
  return failures;
}
