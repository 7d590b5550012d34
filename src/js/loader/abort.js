// @ts-check
// How calls end when their signal aborts.

/**
 * Makes a call reject with the reason of its signal as soon as the signal aborts, whatever the call then waits for: the
 * module, a script, a file that is being read, or the storage of the browser. If the signal has aborted already, the
 * call does not start.
 *
 * @template T
 * @param {AbortSignal | null | undefined} signal
 * @param {() => Promise<T>} call
 * @param {(result: T) => void} [discard] Is called with a result that comes after the abort.
 * @returns {Promise<T>}
 */
export async function untilAborted(signal, call, discard) {
  if (!signal) return call();
  checkAborted(signal);
  const calling = call();
  let abort = () => {};
  try {
    return await new Promise((resolve, reject) => {
      abort = () => {
        calling.then(discard, () => {}); // its caller has got the reason of the abort
        reject(signal.reason);
      };
      signal.addEventListener("abort", abort);
      calling.then(resolve, reject);
    });
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/**
 * Throws the reason of a signal that has aborted: a step that comes after the abort must not start.
 *
 * @param {AbortSignal | null | undefined} signal
 */
export function checkAborted(signal) {
  if (signal?.aborted) throw signal.reason;
}
