// @ts-check
// Numbers the operations of `onProgress`, and adds up the progress of several operations.
import { callable } from "../options/options.js";

/** @import * as Api from "../weightstream.js" */

/** The number of the last operation of any loader or file. */
let lastOperation = 0;

/**
 * A listener for the module that renumbers operations so that they are unique in the page: numbers of the module are
 * unique in one instance of it.
 *
 * @param {(event: Api.LoadProgress) => void} onProgress
 */
export function numbered(onProgress) {
  /** @type {Map<number, number>} */
  const numbers = new Map();
  return (/** @type {Api.LoadProgress} */ event) => {
    const operation = numbers.get(event.operation) ?? ++lastOperation;
    if (event.done) numbers.delete(event.operation);
    else numbers.set(event.operation, operation);
    onProgress({ ...event, operation });
  };
}

const INTERVAL_MS = 100;

/** The weight of the newest interval in the rate, as for a single operation. */
const NEWEST_WEIGHT = 0.3;

/** @type {typeof Api.combineProgress} */
export function combineProgress(given) {
  const onProgress = callable(given, "onProgress");
  /** @type {Map<number, { loaded: number, total: number }>} The operations that run. */
  const running = new Map();
  const ended = { loaded: 0, total: 0 };
  let rate = 0;
  let reportedAt = performance.now();
  let reportedLoaded = 0;

  return ({ type, operation, loaded, total, done }) => {
    if (type === "prefetch") return; // `loadTensor` reports these bytes
    // An operation that is aborted ends with the bytes that have arrived.
    if (done) {
      running.delete(operation);
      ended.loaded += loaded;
      ended.total += loaded;
    } else {
      running.set(operation, { loaded, total });
    }
    const isEnd = running.size === 0;
    const now = performance.now();
    if (!isEnd && now - reportedAt < INTERVAL_MS) return;
    const sum = [...running.values(), ended].reduce((sum, { loaded, total }) => {
      return { loaded: sum.loaded + loaded, total: sum.total + total };
    });
    const newest = (sum.loaded - reportedLoaded) / ((now - reportedAt) / 1000);
    if (now > reportedAt && newest > 0) rate += (rate === 0 ? 1 : NEWEST_WEIGHT) * (newest - rate);
    reportedAt = now;
    reportedLoaded = sum.loaded;
    const left = rate > 0 ? { secondsLeft: (sum.total - sum.loaded) / rate } : {};
    onProgress({ ...sum, bytesPerSecond: rate, ...left, done: isEnd });
  };
}
