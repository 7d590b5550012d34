import assert from "node:assert/strict";
import { test } from "node:test";
import { checkAborted, untilAborted } from "./abort.js";

test("a call with an aborted signal does not start", async () => {
  let calls = 0;
  const reason = new Error("left");
  await assert.rejects(untilAborted(AbortSignal.abort(reason), async () => calls++), reason);
  assert.equal(calls, 0);
});

test("a pending call rejects with the reason of its signal, and a later result is discarded", async () => {
  const controller = new AbortController();
  const reason = new Error("left");
  const { promise, resolve } = deferred();
  const discarded = [];
  const call = untilAborted(controller.signal, () => promise, (result) => discarded.push(result));
  controller.abort(reason);
  await assert.rejects(call, reason);
  resolve("file");
  await promise;
  assert.deepEqual(discarded, ["file"]);
});

test("a call that ends before an abort keeps its result", async () => {
  const controller = new AbortController();
  const discarded = [];
  assert.equal(await untilAborted(controller.signal, async () => 1, () => discarded.push(1)), 1);
  controller.abort();
  assert.deepEqual(discarded, []);
});

test("a call without a signal runs", async () => {
  assert.equal(await untilAborted(null, async () => 1), 1);
  checkAborted(undefined);
});

function deferred() {
  let resolve;
  const promise = new Promise((settle) => (resolve = settle));
  return { promise, resolve };
}
