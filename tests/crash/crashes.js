// If the module crashes for any reason, all pending calls reject, and the next `open` succeeds.
import { Faults, MODEL, crashForTest, open, outcome, pause, safetensors, slowFetch } from "./common.js";

const MESSAGES = {
  panic: ["INTERNAL: weightstream crashed", "this is a test"],
  exception: ["INTERNAL: weightstream crashed", "outside the bounds"],
  memory: ["LIMIT: weightstream ran out of memory", "2000000000 bytes could not be allocated"],
};
const never = () => new Promise(() => {});
const uncaught = [];
addEventListener("unhandledrejection", ({ reason }) => uncaught.push(`unhandled ${reason}`));
addEventListener("error", ({ message }) => uncaught.push(message));

async function everything(faults, what) {
  const loader = await open(MODEL);
  const index = await loader.loadIndex();
  let count = 0;
  for await (const { name } of loader.tensors()) count += name.length > 0;
  loader.close();
  faults.same(`${what}: tensors afterwards`, count, index.length);
}

async function crash(how, isLater) {
  const faults = new Faults();
  const loader = await open(MODEL);
  const [{ name }] = await loader.loadIndex();
  const fetch = slowFetch(safetensors(9, 1 << 20), 20);
  const slow = await open("/slow", { fetch });
  const started = slow.tensors();
  await started.next();
  const paused = loader.tensors();
  await paused.next();
  const waiting = {
    opening: outcome(open(MODEL, { fetch: never })),
    tensor: outcome(slow.loadTensor("t8..")),
    verify: outcome(slow.verify()),
    iteration: outcome(started.next()),
  };
  await pause(20); // until all calls are inside the module
  try {
    crashForTest(how, isLater);
  } catch {
    // the exception is expected
  }
  for (const [what, said] of Object.entries(waiting)) faults.expect(`${how}, ${what}`, await said, ...MESSAGES[how]);
  faults.expect(`${how}, a call afterwards`, await outcome(loader.loadTensor(name)), ...MESSAGES[how]);
  faults.expect(`${how}, a paused iteration`, await outcome(paused.next()), ...MESSAGES[how]);
  const running = fetch.requests.filter(({ sent, start, end, isAborted }) => sent < end - start && !isAborted);
  faults.same(`${how}: requests that go on`, running.length, 0);
  await everything(faults, how);
  faults.expect(`${how}, the old loader`, await outcome(loader.loadTensor(name)), "CLOSED: This loader was lost");
  loader.close();
  slow.close();
  await pause(100); // closures of the old instance
  faults.same(`${how}, uncaught`, uncaught.splice(0), []);
  return faults;
}

export async function endings() {
  const found = [];
  for (const how of Object.keys(MESSAGES)) {
    for (const isLater of [true, false]) found.push(...(await crash(how, isLater)));
  }
  return found;
}

// An index that needs more memory than `--wasm-max-mem-pages` allows.
export async function outOfMemory() {
  const faults = new Faults();
  const file = new Blob([safetensors(100_000, 1, 200)]);
  for (const inWorker of [false, true]) {
    const said = await outcome(open(file, { inWorker }).then((loader) => loader.loadIndex()), 60_000);
    faults.expect(`inWorker: ${inWorker}`, said, /^LIMIT: .*\d+ bytes could not be allocated/);
    await everything(faults, `inWorker: ${inWorker}`);
  }
  faults.same("uncaught", uncaught.splice(0), []);
  return faults;
}
