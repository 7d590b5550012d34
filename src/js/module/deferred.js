// @ts-check
// The deferred parts of the module: code that most pages do not need. A part is loaded when something needs it, and
// runs in the instance of the main part, whose memory and table it uses. A module that is not split has none.
import { setDeferred } from "./glue.js";
import { currentExports, messageOf } from "./guard.js";
import { released } from "./location.js";
import { offlineAdvice } from "./policy.js";

/** @import { PackageWorker } from "./glue.js" */

/** The numbers of the parts, as in src/deferred.rs. */
export const CACHE = 1;
export const EXTRAS = 2;
export const BLAKE3 = 9;
export const CACHED_FILES = 10;

/** How long a part may take to arrive, so that every call settles: 1 KB/s is enough for the longest one. */
const MAX_WAIT_MS = 120_000;

/** @typedef {string | WebAssembly.Module} Part The URL of a part, or the compiled part. */

/** @type {Part[]} */
let parts = [];

/** @type {Set<number>} The parts that the current instance has. */
let attached = new Set();

/** @type {Map<number, Promise<WebAssembly.Module>>} */
const compiling = new Map();

/** @type {Set<PackageWorker>} Workers that get the parts when they are loaded: they do not know when they need them. */
const followers = new Set();

/** Whether the instance that runs lacks the parts. */
export const isSplit = () => currentExports !== undefined && "table0" in currentExports;

/**
 * Whether the code of a part can be called.
 *
 * @param {number} number
 */
export const isLoaded = (number) => !isSplit() || attached.has(number);

/**
 * Sets where the parts are. Another thread, which has the same module, may have loaded some already.
 *
 * @param {Part[]} given
 */
export function offerDeferred(given) {
  parts = given.map((part, number) => {
    const known = parts[number];
    return typeof known === "object" ? known : part;
  });
}

/** Prepares a new instance of the module. */
export function prepareDeferred() {
  attached = new Set();
  if (isSplit()) setDeferred(load);
}

/** Gives the instance of a worker the parts that are loaded already. Pages may not do this synchronously. */
export function attachLoaded() {
  if (!isSplit()) return;
  parts.forEach((part, number) => {
    if (typeof part !== "object" || attached.has(number)) return;
    new WebAssembly.Instance(part, imports());
    attached.add(number);
  });
}

/**
 * Tells a worker where the parts are, now and when they are loaded.
 *
 * @template {PackageWorker} W
 * @param {W} worker
 */
export function followDeferred(worker) {
  if (isSplit()) {
    worker.postMessage({ deferred: parts });
    followers.add(worker);
  }
  return worker;
}

/** @param {PackageWorker} worker */
export const unfollowDeferred = (worker) => followers.delete(worker);

/**
 * Loads a part, and puts its functions into the table of the instance.
 *
 * @param {number} number
 */
async function load(number) {
  if (attached.has(number)) return;
  const source = parts[number];
  if (source === undefined) throw new Error("its URL is unknown");
  const part = typeof source === "string" ? await compiled(number, source) : source;
  const of = attached;
  await WebAssembly.instantiate(part, imports());
  of.add(number); // of the instance that was running: another one has parts of its own
  if (typeof parts[number] === "object") return;
  parts = parts.map((known, other) => (other === number ? part : known));
  for (const worker of followers) worker.postMessage({ deferred: parts });
}

const imports = () => ({ main: /** @type {WebAssembly.ModuleImports} */ (currentExports) });

/**
 * Compiles a part. It may be called before the module has started.
 *
 * @param {number} number
 * @param {string} url
 */
export function compiled(number, url) {
  let part = compiling.get(number);
  if (!part) {
    part = compile(url);
    compiling.set(number, part);
    part.catch(() => compiling.delete(number)); // so that a later call can succeed
  }
  return part;
}

/** @param {string} url */
async function compile(url) {
  const stop = new AbortController();
  const late = () => stop.abort(new Error(`it did not arrive within ${MAX_WAIT_MS / 1000} s`));
  const timer = released(setTimeout(late, MAX_WAIT_MS));
  try {
    const response = await fetch(url, { credentials: "same-origin", signal: stop.signal });
    if (!response.ok) throw new Error(`the server responded with status ${response.status}`);
    const isWasm = response.headers.get("Content-Type") === "application/wasm";
    return await (isWasm
      ? WebAssembly.compileStreaming(response)
      : WebAssembly.compile(await response.arrayBuffer()));
  } catch (cause) {
    const advice = offlineAdvice();
    throw new Error(`${url}: ${messageOf(cause)}${advice && `. ${advice}`}`, { cause });
  } finally {
    clearTimeout(timer);
  }
}
