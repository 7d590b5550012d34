// @ts-check
// Gives a thread of Node.js, Deno or Bun the globals of a Web worker that worker.js and the module use.
import { parentPort } from "node:worker_threads";
import { ThreadWorker } from "./thread.js";

const page = /** @type {import("node:worker_threads").MessagePort} */ (parentPort); // this is not the main thread

// Deno and Bun have some of these globals. Their own handlers would get each message a second time.
defineHandler("message");
defineHandler("messageerror");
define("postMessage", {
  value: (/** @type {unknown} */ message, /** @type {any[]} */ transferred = []) => {
    page.postMessage(message, transferred);
  },
});
define("location", { value: { href: import.meta.url } });
define("Worker", { value: ThreadWorker }); // workers start workers with the URL of this script

/** @param {"message" | "messageerror"} type */
function defineHandler(type) {
  /** @type {((event: { data: unknown }) => void) | null} */
  let handler = null;
  page.on(type, (/** @type {unknown} */ data) => handler?.({ data }));
  define(`on${type}`, { get: () => handler, set: (given) => (handler = given) });
}

/**
 * @param {string} name
 * @param {PropertyDescriptor} descriptor
 */
function define(name, descriptor) {
  Object.defineProperty(globalThis, name, { configurable: true, ...descriptor });
}
