// @ts-check
// A model as a Blob: one SafeTensors file that is decoded when it is read.
import { lazyBlob } from "../file/blob.js";
import { callModule } from "../module/module.js";

/** @import { ModelView } from "../module/glue.js" */
/** @import { Settle } from "../module/module.js" */

/** The bytes that are read at once. */
const PIECE_BYTES = 1024 * 1024;

/**
 * The view that `openView` returns, and its Blob. `openView` returns a promise if the index of the model is not read
 * yet. Awaiting the Blob waits for the view.
 *
 * @param {() => ModelView | Promise<ModelView>} openView
 * @param {Settle} settle
 * @param {() => void} checkOpen Throws once the loader is closed.
 * @returns {{ view: Promise<ModelView>, blob: Blob & PromiseLike<Blob> }}
 */
export function modelBlob(openView, settle, checkOpen) {
  const opening = openView();
  /** @type {ModelView | undefined} */
  let view = opening instanceof Promise ? undefined : opening;
  const opened = settle(async () => (view = await opening));
  const source = {
    byteLength: () => view?.byteLength,
    open: () => opened,
    hasFileChecks: () => settle(async () => (view ?? (await opening)).hasFileChecks()),
    /**
     * @param {number} start
     * @param {number} end
     * @param {AbortSignal} [signal]
     */
    async *read(start, end, signal) {
      const opened = view ?? (await opening);
      const reader = await settle(async () => opened.read(start, end, signal));
      try {
        for (let at = start; at < end; at += PIECE_BYTES) {
          yield await settle(() => reader.fill(Math.min(PIECE_BYTES, end - at)));
        }
      } finally {
        callModule(() => reader.cancel());
      }
    },
  };
  const blob = lazyBlob(source, "");
  /** @type {PromiseLike<Blob>["then"]} */
  const then = (onFulfilled, onRejected) => {
    const blob = opened.then(() => {
      checkOpen();
      return lazyBlob(source, "");
    });
    return blob.then(onFulfilled, onRejected);
  };
  return { view: opened, blob: Object.defineProperty(/** @type {any} */ (blob), "then", { value: then }) };
}
