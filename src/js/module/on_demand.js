// @ts-check
// Starts the small modules that few pages need. The script of each contains its module, compressed, so that bundlers
// and service workers need no other file.
import { fail } from "../loader/error.js";
import { messageOf } from "./guard.js";

/** @typedef {<T extends { free(): void }>(object: T) => T} Own Frees an object of the module after the call. */

/** @import { ModuleSource } from "../weightstream.js" */

/**
 * A module: compressed with gzip, in Base64, and as the app has passed it.
 *
 * @typedef {{ gzip: string, given?: ModuleSource }} Source
 */

/** @typedef {(parts: { module_or_path: ModuleSource }) => Promise<unknown>} Start */

/**
 * A function that calls code of a module, which it starts first.
 *
 * @param {Source} source
 * @param {Start} start
 * @param {string} purpose What the module does, for messages.
 */
export function onDemand(source, start, purpose) {
  /** @type {Promise<unknown> | undefined} */
  let starting;
  /** @type {unknown} The exception with which the module crashed. It is not entered again. */
  let crash;

  /**
   * @template T
   * @param {(own: Own) => Promise<T>} call
   * @returns {Promise<T>}
   */
  return async (call) => {
    starting ??= startedModule(source, start).catch((cause) => {
      starting = undefined; // so that a later call can succeed
      const message = `The module that ${purpose} could not be started: ${messageOf(cause)}`;
      throw fail({ code: "INTERNAL", message, cause });
    });
    await starting;
    /** @type {{ free(): void }[]} */
    const owned = [];
    try {
      if (crash) throw crash;
      return await call((object) => {
        owned.push(object);
        return object;
      });
    } catch (error) {
      if (!crash && !isCrash(error)) throw error;
      crash = error;
      const message = `The module that ${purpose} crashed: ${messageOf(error)}. Reload the page, and report this.`;
      throw fail({ code: "INTERNAL", message, cause: error });
    } finally {
      if (!crash) for (const object of owned) object.free();
    }
  };
}

/** @param {unknown} error A stack overflow is a RangeError. */
const isCrash = (error) => error instanceof WebAssembly.RuntimeError || error instanceof RangeError;

/**
 * @param {Source} source
 * @param {Start} start
 */
async function startedModule({ gzip, given }, start) {
  if (given !== undefined) return start({ module_or_path: given });
  const packed = Uint8Array.from(atob(gzip), (character) => character.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return start({ module_or_path: await new Response(unpacked).arrayBuffer() });
}
