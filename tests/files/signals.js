// Every call takes a signal: it rejects with the reason, and its requests stop.
import { Failures, RETRY, serverOf, tick } from "./common.js";
import { safetensors } from "./safetensors.js";

const { StreamingLoader, openFile } = await import("/pkg/weightstream.js");

const MODEL = "/fixtures/safetensors/sharded/model.safetensors.index.json";
const REASON = new Error("not needed any more");

/** A `fetch` whose requests of shards never end by themselves. */
function withoutShards() {
  const running = new Set();
  const pending = async (url, { signal }) => {
    if (String(url).endsWith(".json")) return fetch(url, { signal });
    running.add(url);
    return new Promise((_, reject) => signal.addEventListener("abort", () => {
      running.delete(url);
      reject(signal.reason);
    }));
  };
  return { running, fetch: pending };
}

const until = async (condition) => {
  while (!condition()) await tick();
};

export async function callsThatReadTheHeaders() {
  const failures = new Failures();
  const { running, fetch } = withoutShards();
  for (const call of ["loadIndex", "loadMetadata", "warnings", "verify"]) {
    const loader = await StreamingLoader.open(MODEL, { fetch, cache: "none", retry: RETRY });
    const controller = new AbortController();
    const rejected = loader[call]({ signal: controller.signal }).catch((error) => error);
    if (call !== "loadMetadata") await until(() => running.size > 0);
    controller.abort(REASON);
    const outcome = await rejected;
    failures.same(call, outcome === REASON || (call === "loadMetadata" && outcome.format !== undefined), true);
    await until(() => running.size === 0);
    const late = await loader[call]({ signal: AbortSignal.abort(REASON) }).catch((error) => error);
    failures.same(`${call} after the abort`, late === REASON, true);
    await failures.rejects(call, loader[call]({ sgnal: null }), "INVALID_ARGUMENT", "`signal`");
    loader.close();
  }
  return failures;
}

export async function callsInAWorker() {
  const failures = new Failures();
  const loader = await StreamingLoader.open(MODEL, { inWorker: true, cache: "none" });
  for (const call of ["loadIndex", "loadMetadata", "warnings"]) {
    const late = await loader[call]({ signal: AbortSignal.abort(REASON) }).catch((error) => error);
    failures.same(call, late === REASON, true);
  }
  const [{ file, offset, digest, parameterCount, shape }] = await loader.loadIndex();
  const path = new URL(file).pathname.split("/").pop();
  failures.same("the first tensor", [path.endsWith(".safetensors"), offset > 0, digest], [true, true, undefined]);
  failures.same("parameters", parameterCount, shape.reduce((product, dim) => product * dim, 1));
  loader.close();
  return failures;
}

export async function prefetching() {
  const failures = new Failures();
  for (const inWorker of [false, true]) {
    const events = [];
    const onProgress = (event) => events.push(event);
    const { fetch } = serverOf(safetensors({ a: 3_000_000 }), () => ({ delay: 12 }));
    const [source, name, own] = inWorker ? ["/rows/m.safetensors", "t", {}] : ["/m.safetensors", "a", { fetch }];
    const loader = await StreamingLoader.open(source, { ...own, inWorker, onProgress, cache: "none", retry: RETRY });
    const controller = new AbortController();
    loader.prefetch([name], { signal: controller.signal });
    if (!inWorker) await until(() => events.some(({ loaded }) => loaded > 0));
    controller.abort(REASON);
    await until(() => events.some(({ done }) => done) || inWorker);
    const ends = events.filter(({ done }) => done).map(({ outcome }) => outcome);
    if (!inWorker) failures.same("the end of prefetching", ends, ["aborted"]);
    loader.prefetch([name], { signal: AbortSignal.abort(REASON) });
    events.length = 0;
    loader.prefetch([name]);
    const isDone = ({ outcome }) => outcome === "done";
    await until(() => events.some(isDone));
    failures.same("prefetching again", events.find(isDone).loaded > 0, true);
    failures.same("the tensor", (await loader.loadTensor(name)).data.byteLength > 0, true);
    loader.close();
  }
  return failures;
}

export async function outcomesOfOperations() {
  const failures = new Failures();
  const events = [];
  const last = () => events.findLast(({ done }) => done)?.outcome;
  const onProgress = (event) => events.push(event);
  const options = { onProgress, cache: "none", retry: RETRY };
  const scripts = [{}, { delay: 12 }, { status: 404 }];
  const { fetch } = serverOf(safetensors({ a: 3_000_000 }), (number) => scripts[number] ?? {});
  const loader = await StreamingLoader.open("/m.safetensors", { ...options, fetch });
  const controller = new AbortController();
  const aborted = loader.loadTensor("a", { signal: controller.signal }).catch((error) => error);
  await until(() => events.some(({ loaded }) => loaded > 0));
  controller.abort(REASON);
  failures.same("an abort", [await aborted === REASON, last()], [true, "aborted"]);
  await failures.rejects("a 404", loader.loadTensor("a"), "HTTP", "404");
  failures.same("a failure", last(), "failed");
  await loader.loadTensor("a");
  failures.same("success", last(), "done");
  for await (const _ of loader.tensors()) break;
  failures.same("an iteration that ends early", last(), "aborted");
  loader.prefetch(["no such tensor"]);
  await until(() => events.some(({ type, done }) => type === "prefetch" && done));
  failures.same("a tensor that does not exist", last(), "failed");
  loader.close();
  return failures;
}

export async function outcomesInAClosedWorker() {
  const failures = new Failures();
  for (const call of ["verify", "tensors"]) {
    const events = [];
    const onProgress = (event) => events.push(event);
    const loader = await StreamingLoader.open("/rows/m.safetensors", { inWorker: true, onProgress, cache: "none" });
    const pending = call === "verify" ? loader.verify() : loader.tensors().next();
    pending.catch(() => {});
    await until(() => events.length > 0);
    loader.close();
    await until(() => events.some(({ done }) => done));
    failures.same(call, events.filter(({ done }) => done).length, 1);
  }
  return failures;
}

export async function ownBytes() {
  const failures = new Failures();
  const bytes = safetensors({ a: 1_000_000 });
  const signals = [];
  let isHeld = false;
  const slice = (start, end, { signal }) => {
    signals.push(signal);
    return isHeld ? new Promise(() => {}) : bytes.slice(start, end);
  };
  const loader = await StreamingLoader.open({ byteLength: bytes.length, slice });
  failures.same("calls that have ended", signals.some(({ aborted }) => aborted), false);
  isHeld = true;
  const before = signals.length;
  const controller = new AbortController();
  const rejected = loader.loadTensor("a", { signal: controller.signal }).catch((error) => error);
  await until(() => signals.length > before);
  controller.abort(REASON);
  failures.same("the abort", await rejected === REASON, true);
  await until(() => signals.at(-1).aborted);
  loader.close();
  return failures;
}

export async function filesOnDisk() {
  const failures = new Failures();
  const { fetch } = serverOf(new Uint8Array(3_000_000), () => ({ delay: 12 }));
  const file = await openFile("/file.bin", { fetch, cache: "none", retry: RETRY });
  const rejected = await file.file({ signal: AbortSignal.abort(REASON) }).catch((error) => error);
  failures.same("a call that is aborted already", rejected === REASON, true);
  const [first, second] = [new AbortController(), new AbortController()];
  const calls = [first, second].map(({ signal }) => file.file({ signal }).catch((error) => error));
  first.abort(REASON);
  failures.same("the first call", await calls[0] === REASON, true);
  const stored = await calls[1];
  // WebKitGTK cannot write files, and rejects.
  const end = stored.size ?? stored.code;
  failures.same("the second call", [3_000_000, "UNSUPPORTED"].includes(end) || end, true);
  file.close();
  return failures;
}
