// @ts-check
// The deferred part of the module: formats and decoders that most models do not need. It is loaded when a model needs
// it, and runs in the instance of the main part, whose memory and table it uses. A module that is not split has none.
import { setDeferred } from "./weightstream_glue.js";
import { currentExports, messageOf } from "./weightstream.guard.js";
import { offlineAdvice } from "./weightstream.policy.js";

/** @import { PackageWorker } from "./weightstream_glue.js" */

/** @type {string | WebAssembly.Module | undefined} Its URL, or the compiled part. */
let source;

/** @type {Promise<WebAssembly.Module> | undefined} */
let compiling;

/** @type {Set<PackageWorker>} Workers that get the part when it is loaded: they do not know when they need it. */
const followers = new Set();

/** Whether the instance that runs lacks the part. */
export const isSplit = () => currentExports !== undefined && "table0" in currentExports;

/**
 * Sets where the part is. Another thread, which has the same module, may have loaded it already.
 *
 * @param {string | WebAssembly.Module} given
 */
export function offerDeferred(given) {
  source = given;
  if (typeof given !== "string" && isSplit()) attach(given);
}

/** Prepares a new instance of the module. */
export function prepareDeferred() {
  if (!isSplit()) return;
  if (source !== undefined && typeof source !== "string") attach(source);
  else setDeferred(load);
}

/**
 * Tells a worker where the part is, now and when it is loaded.
 *
 * @template {PackageWorker} W
 * @param {W} worker
 */
export function followDeferred(worker) {
  if (isSplit() && source !== undefined) {
    worker.postMessage({ deferred: source });
    if (typeof source === "string") followers.add(worker);
  }
  return worker;
}

/** @param {PackageWorker} worker */
export const unfollowDeferred = (worker) => followers.delete(worker);

async function load() {
  if (typeof source !== "string") return; // another thread has loaded it since
  compiling ??= compile(String(source)).catch((error) => {
    compiling = undefined; // so that a later call can succeed
    throw error;
  });
  const part = await compiling;
  offerDeferred(part);
  for (const worker of followers) worker.postMessage({ deferred: part });
  followers.clear();
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
 * Puts the functions of the part into the table of the instance.
 *
 * @param {WebAssembly.Module} part
 */
function attach(part) {
  new WebAssembly.Instance(part, { main: /** @type {WebAssembly.ModuleImports} */ (currentExports) });
}
