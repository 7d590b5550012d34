// @ts-check
// Scripts of the package that are loaded when something first needs them.
import { fail } from "../loader/error.js";
import { messageOf } from "./guard.js";
import { offlineAdvice } from "./policy.js";

/**
 * A script that `load` imports at its first use, unless the entry point provides it: a service worker must not import
 * anything later, and an entry point without other files has none beside it.
 *
 * @template Script
 * @param {string} file The name of its file in the package.
 * @param {() => Promise<Script>} load
 * @param {string} [advice] What to do in a service worker.
 */
export function laterScript(file, load, advice = "must import weightstream/service-worker") {
  /** @type {Script | undefined} */
  let script;
  return {
    /** @param {Script} given */
    provide(given) {
      script = given;
    },
    /** @returns {Promise<Script>} */
    async load() {
      try {
        return (script ??= await load());
      } catch (cause) {
        const message = `${file} cannot be loaded: ${messageOf(cause)}. ${offlineAdvice()}Serve all files of the ` +
          `package. Service workers ${advice}.`;
        throw fail({ code: "UNSUPPORTED", message, cause });
      }
    },
  };
}
