// The events of `onProgress`.
import { Failures, RETRY, serverOf, tick } from "./common.js";
import { safetensors } from "./safetensors.js";

const { StreamingLoader, combineProgress, openFile } = await import("/pkg/weightstream.js");

const LENGTHS = { a: 1_000_000, b: 3_000_000, c: 1_000_000 };
const MODEL = safetensors(LENGTHS);

async function openRecorded(source, options) {
  const events = [];
  const loader = await StreamingLoader.open(source, {
    cache: "none", retry: RETRY, onProgress: (event) => events.push(event), ...options,
  });
  const of = (wanted) => events.filter(({ type }) => type === wanted);
  const until = async (condition) => {
    while (!condition()) await tick();
  };
  return { loader, events, of, until };
}

// Checks the events of one operation. Returns how many there were.
function checkEvents(failures, what, events, total) {
  const loaded = events.map(({ loaded }) => loaded);
  failures.same(`${what}: totals`, [...new Set(events.map(({ total }) => total))], [total]);
  failures.same(`${what}: loaded never decreases`, loaded, [...loaded].sort((a, b) => a - b));
  failures.same(`${what}: the end`, [loaded.at(-1), events.map(({ done }) => done).indexOf(true)],
    [total, events.length - 1]);
  failures.same(`${what}: the outcome`, events.flatMap(({ outcome }) => outcome ?? []), ["done"]);
  return events.length;
}

export async function prefetchedTensors() {
  const failures = new Failures();
  const { fetch } = serverOf(MODEL, () => ({ delay: 12 }));
  const { loader, of, until } = await openRecorded("/m.safetensors", { fetch });
  loader.prefetch(["a", "b"]);
  await until(() => of("prefetch").some(({ loaded }) => loaded > LENGTHS.a + 500_000));
  const before = of("loadTensor").length;
  failures.same("the prefetched tensor", (await loader.loadTensor("a")).data.length, LENGTHS.a);
  const eventsOfA = of("loadTensor").slice(before);
  checkEvents(failures, "a tensor that has arrived", eventsOfA, LENGTHS.a);
  failures.same("its name", eventsOfA.at(-1).tensor, "a");

  const first = of("loadTensor").length;
  failures.same("the tensor that is arriving", (await loader.loadTensor("b")).data.length, LENGTHS.b);
  const eventsOfB = of("loadTensor").slice(first);
  const count = checkEvents(failures, "a tensor that is arriving", eventsOfB, LENGTHS.b);
  failures.same(`${count} events follow the bytes`, count > 2, true);
  const ranges = eventsOfB.flatMap(({ ranges }) => ranges);
  failures.same("its ranges", ranges.reduce((sum, { start, end }) => sum + end - start, 0), LENGTHS.b);
  checkEvents(failures, "prefetch", of("prefetch"), LENGTHS.a + LENGTHS.b);
  loader.close();
  return failures;
}

export async function prefetchedTensorsInAnotherForm() {
  const failures = new Failures();
  for (const options of [{}, { inWorker: true }]) {
    const { loader, of, until } = await openRecorded("/rows/m.safetensors", options);
    loader.prefetch(["t"]);
    await until(() => of("prefetch").some(({ done }) => done));
    await loader.loadTensor("t", { layout: "dense" });
    checkEvents(failures, JSON.stringify(options), of("loadTensor"), 12288 * 1024);
    loader.close();
  }
  return failures;
}

export async function prefetchingThatFails() {
  const failures = new Failures();
  // The header, a part of the tensor, an error that ends prefetching, and the load of the tensor.
  const scripts = [{}, { delay: 12, cutAfter: 1_000_000 }, { status: 404 }];
  const { fetch } = serverOf(MODEL, (number) => scripts[number] ?? {});
  const { loader, of, until } = await openRecorded("/m.safetensors", { fetch });
  loader.prefetch(["b"]);
  await until(() => of("prefetch").some(({ loaded }) => loaded > 300_000));
  failures.same("the tensor", (await loader.loadTensor("b")).data.length, LENGTHS.b);
  checkEvents(failures, "the load after it", of("loadTensor"), LENGTHS.b);
  loader.close();
  return failures;
}

export async function abortedCallsThatWaitForPrefetching() {
  const failures = new Failures();
  const { fetch } = serverOf(MODEL, () => ({ delay: 12 }));
  const { loader, of, until } = await openRecorded("/m.safetensors", { fetch });
  loader.prefetch(["b"]);
  await until(() => of("prefetch").some(({ loaded }) => loaded > 300_000));
  const controller = new AbortController();
  const aborted = loader.loadTensor("b", { signal: controller.signal }).catch(({ name }) => name);
  await until(() => of("loadTensor").length > 0);
  controller.abort();
  failures.same("the abort", await aborted, "AbortError");
  const count = of("loadTensor").length;
  await tick();
  await tick();
  await tick();
  failures.same("no events after it", of("loadTensor").length, count);
  failures.same("a later call", (await loader.loadTensor("b")).data.length, LENGTHS.b);
  checkEvents(failures, "its events", of("loadTensor").slice(count), LENGTHS.b);
  loader.close();
  return failures;
}

export async function everyOperationEndsWithAnEvent() {
  const failures = new Failures();
  const { fetch } = serverOf(MODEL, () => ({ delay: 12 }));
  const { loader, events, of, until } = await openRecorded("/m.safetensors", { fetch });
  for await (const { name } of loader.tensors()) if (name === "a") break;
  await tick();
  const [last] = of("tensors").slice(-1);
  failures.same("a loop that is left", [last.done, last.loaded < last.total], [true, true]);
  loader.loadTensor("b").catch(() => {});
  loader.prefetch(["c"]);
  await until(() => of("loadTensor").length > 1);
  loader.close();
  await tick();
  const open = new Set(events.map(({ operation }) => operation));
  events.filter(({ done }) => done).forEach(({ operation }) => open.delete(operation));
  failures.same("operations without an end", [...open], []);
  const ends = events.filter(({ done }) => done).map(({ operation }) => operation);
  failures.same("each ends once", ends.length, new Set(ends).size);
  return failures;
}

export async function combinedProgress() {
  const failures = new Failures();
  const events = [];
  const onProgress = combineProgress((event) => events.push(event));
  const slow = () => ({ delay: 5 });
  const options = { cache: "none", retry: RETRY, onProgress };
  const open = (options) => StreamingLoader.open("/m.safetensors", { ...options, fetch: serverOf(MODEL, slow).fetch });
  const one = await open(options);
  const remote = await StreamingLoader.open("/rows/m.safetensors", { ...options, inWorker: true });
  const file = await openFile("/f.bin", { ...options, fetch: serverOf(MODEL, slow).fetch });
  one.prefetch(["a"]);
  await Promise.all([
    ...Object.keys(LENGTHS).map((name) => one.loadTensor(name)), remote.loadTensor("t"), file.bytes(),
  ]);
  const total = 5_000_000 + 12288 * 1024 + MODEL.length;
  const { loaded: end, ...last } = events.at(-1);
  failures.same("the end", [end, last.total, last.done], [total, total, true]);
  const loaded = events.map(({ loaded }) => loaded);
  failures.same("loaded never decreases", loaded, [...loaded].sort((a, b) => a - b));
  failures.same("loaded is at most the total", events.every(({ loaded, total }) => loaded <= total), true);
  failures.same("one end", events.filter(({ done }) => done).length, 1);
  failures.same(`${events.length} events follow the bytes`, events.length > 3, true);
  // The event before the last may already have all bytes.
  const middle = events.findLast(({ loaded, total }) => loaded < total);
  failures.same("a rate", [middle.bytesPerSecond > 0, middle.secondsLeft > 0, last.secondsLeft], [true, true, 0]);

  const slower = await StreamingLoader.open("/m.safetensors", {
    ...options, fetch: serverOf(MODEL, () => ({ delay: 20 })).fetch,
  });
  const controller = new AbortController();
  const { signal } = controller;
  const aborted = slower.loadTensor("b", { signal }).then(() => "it has loaded", ({ name }) => name);
  const alsoLoading = one.loadTensor("a");
  while (events.at(-1).done) await tick();
  controller.abort();
  failures.same("an abort", await aborted, "AbortError");
  await alsoLoading;
  await tick();
  const after = events.at(-1);
  failures.same("the end after it", [after.done, after.loaded], [true, after.total]);
  failures.same("the bytes after it", after.loaded > total + LENGTHS.a && after.loaded < total + 4_000_000, true);
  let message = "";
  try {
    combineProgress({});
  } catch (error) {
    message = error.message;
  }
  failures.same(message, message.startsWith("`onProgress` is [object Object], but must be a function"), true);
  [one, remote, file, slower].forEach((it) => it.close());
  return failures;
}

export async function twoCallsForOneTensor() {
  const failures = new Failures();
  const { fetch } = serverOf(MODEL, () => ({ delay: 3 }));
  const { loader, of } = await openRecorded("/m.safetensors", { fetch });
  await Promise.all([loader.loadTensor("b"), loader.loadTensor("b")]);
  const ends = of("loadTensor").filter(({ done }) => done).map(({ loaded, total }) => [loaded, total]);
  failures.same("both end at the total", ends, [[LENGTHS.b, LENGTHS.b], [LENGTHS.b, LENGTHS.b]]);
  loader.close();
  return failures;
}
