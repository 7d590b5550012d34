// @ts-check
// Starts workers that run the module of an app, and is the script of these workers. wasm-bindgen copies it to the
// folder `snippets` beside the glue of the module.

const NAME = "weightstream";

/**
 * Returns the function that starts a worker.
 *
 * @param {string} glueUrl
 */
export function starter(glueUrl) {
  return () => {
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: NAME });
    worker.postMessage(glueUrl);
    return worker;
  };
}

// The app imports this script, too.
if ("importScripts" in globalThis && globalThis.name === NAME) {
  const scope = /** @type {DedicatedWorkerGlobalScope} */ (/** @type {unknown} */ (globalThis));
  /** @type {MessageEvent[]} */
  const waiting = [];
  scope.onmessage = (event) => {
    waiting.push(event);
    if (waiting.length === 2) start(waiting[0].data, waiting[1].data).then(serveWaiting, throwLater);
  };

  // For example of a module that this worker may not have.
  scope.onmessageerror = () => throwLater(new Error("a message cannot be read here"));

  // The module has set its own handler.
  const serveWaiting = () => waiting.slice(2).forEach((event) => scope.onmessage?.(event));
}

/**
 * @param {string} glueUrl
 * @param {[module: WebAssembly.Module, role: string]} message
 */
async function start(glueUrl, [module, role]) {
  const glue = await import(/* @vite-ignore */ /* webpackIgnore: true */ glueUrl);
  if (!glue.initSync) {
    throw new Error(`${glueUrl} has no initSync: set a worker with weightstream::web::set_worker`);
  }
  try {
    glue.initSync({ module });
  } catch (error) {
    const advice = "return from the start function of the app if weightstream::web::is_worker()";
    throw new Error(`the module does not start in a worker (${error}): ${advice}`);
  }
  glue.weightstreamServe(role);
}

/**
 * Reports an error to the `onerror` of the page.
 *
 * @param {unknown} error
 */
function throwLater(error) {
  setTimeout(() => {
    throw error;
  });
}
