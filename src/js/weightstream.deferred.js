// @ts-check
// The deferred parts of the module: code that most pages do not need. A part is loaded when something needs it, and
// runs in the instance of the main part, whose memory and table it uses. A module that is not split has none.
import { setDeferred } from "./weightstream_glue.js";
import { currentExports, messageOf } from "./weightstream.guard.js";
import { offlineAdvice } from "./weightstream.policy.js";

/** @import { PackageWorker } from "./weightstream_glue.js" */

/** The numbers of the parts, as in src/deferred.rs. */
export const CACHE = 1;
export const EXTRAS = 2;

/** @typedef {string | WebAssembly.Module} Part The URL of a part, or the compiled part. */

/** @type {Part[]} */
let parts = [];

/** @type {Map<number, Promise<WebAssembly.Module>>} */
const compiling = new Map();

/** @type {Set<PackageWorker>} Workers that get the parts when they are loaded: they do not know when they need them. */
const followers = new Set();

/** Whether the instance that runs lacks the parts. */
export const isSplit = () => currentExports !== undefined && "table0" in currentExports;

/**
 * Sets where the parts are. Another thread, which has the same module, may have loaded some already.
 *
 * @param {Part[]} given
 */
export function offerDeferred(given) {
  const known = parts;
  parts = given.map((part, number) => (typeof known[number] === "object" ? known[number] : part));
  if (isSplit()) parts.forEach((part, number) => part !== known[number] && attach(part));
}

/** Prepares a new instance of the module. */
export function prepareDeferred() {
  if (!isSplit()) return;
  setDeferred(load);
  parts.forEach(attach);
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
 * Loads a part. It may be called before the module has started.
 *
 * @param {number} number
 */
export async function load(number) {
  const source = parts[number];
  if (typeof source === "object") return; // another thread has loaded it
  if (source === undefined) throw new Error("its URL is unknown");
  const part = await compiled(number, source);
  if (typeof parts[number] !== "string") return;
  offerDeferred(parts.map((known, other) => (other === number ? part : known)));
  for (const worker of followers) worker.postMessage({ deferred: parts });
}

/**
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
  const response = await fetch(url, { credentials: "same-origin" }).catch((cause) => {
    throw new Error(`${url}: ${messageOf(cause)}. ${offlineAdvice()}`.trim(), { cause });
  });
  if (!response.ok) throw new Error(`${url}: the server responded with status ${response.status}`);
  const isWasm = response.headers.get("Content-Type") === "application/wasm";
  return isWasm ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
}

/**
 * Puts the functions of a part into the table of the instance.
 *
 * @param {Part | undefined} part
 */
function attach(part) {
  if (typeof part !== "object") return;
  new WebAssembly.Instance(part, { main: /** @type {WebAssembly.ModuleImports} */ (currentExports) });
}
