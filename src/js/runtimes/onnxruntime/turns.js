// @ts-check
// What ONNX Runtime does for graphs in parts, one after another. Its module has one list of external data, which each
// session that was created empties, and its functions must not be entered while another one waits.

/** The last turn of each runtime. @type {WeakMap<object, Promise<unknown>>} */
const lastTurns = new WeakMap();

/**
 * Calls `work` when all earlier work for this runtime has ended.
 *
 * @template T
 * @param {object} runtime
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export function inTurn(runtime, work) {
  const turn = (lastTurns.get(runtime) ?? Promise.resolve()).then(work);
  lastTurns.set(runtime, turn.catch(() => {})); // its caller handles the error
  return turn;
}
