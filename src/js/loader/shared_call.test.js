// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { SharedCall } from "./shared_call.js";

/** A call that the test ends. */
function pending() {
  /** @type {(value: string) => void} */
  let resolve = () => {};
  /** @type {AbortSignal | undefined} */
  let stop;
  let failures = 0;
  const call = new SharedCall(
    (signal) => {
      stop = signal;
      return new Promise((given, reject) => {
        resolve = given;
        signal.addEventListener("abort", () => reject(signal.reason));
      });
    },
    () => failures++,
  );
  return {
    call,
    resolve: (/** @type {string} */ value) => resolve(value),
    isStopped: () => stop?.aborted,
    failures: () => failures,
  };
}

test("an abort of one caller does not stop the call of another", async () => {
  const { call, resolve, isStopped, failures } = pending();
  const controller = new AbortController();
  const [aborted, other] = [call.join(controller.signal), call.join(undefined)];
  controller.abort(new Error("not needed"));
  await assert.rejects(aborted, /not needed/);
  assert.equal(isStopped(), false);
  resolve("done");
  assert.equal(await other, "done");
  assert.equal(failures(), 0);
});

test("the call stops when each caller has aborted", async () => {
  const { call, isStopped, failures } = pending();
  const controllers = [new AbortController(), new AbortController()];
  const calls = controllers.map(({ signal }) => call.join(signal));
  controllers.forEach((controller, at) => controller.abort(new Error(`abort ${at}`)));
  await assert.rejects(/** @type {any} */ (calls[0]), /abort 0/);
  await assert.rejects(/** @type {any} */ (calls[1]), /abort 1/);
  assert.equal(isStopped(), true);
  assert.equal(failures(), 1);
});
