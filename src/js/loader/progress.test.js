import assert from "node:assert/strict";
import { test } from "node:test";
import { combineProgress, numbered } from "./progress.js";

const event = (operation, loaded, total, done = false, type = "tensor") => ({ type, operation, loaded, total, done });

test("operations of two loaders get different numbers, which stay the same until they end", () => {
  const seen = [];
  const listener = () => numbered(({ operation }) => seen.push(operation));
  const listeners = [listener(), listener()];
  listeners[0](event(1, 0, 8));
  listeners[1](event(1, 0, 8));
  listeners[0](event(1, 8, 8, true));
  listeners[0](event(1, 0, 8));
  const [first, other, end, next] = seen;
  assert.equal(first, end);
  assert.equal(new Set([first, other, next]).size, 3);
});

test("the progress of several operations is added up, and an aborted one counts what has arrived", () => {
  const reports = reported((listener) => {
    listener(event(1, 10, 100));
    listener(event(2, 20, 50));
    listener(event(1, 10, 100, true));
    listener(event(2, 50, 50, true));
  });
  const { loaded, total, done } = reports.at(-1);
  assert.deepEqual({ loaded, total, done }, { loaded: 60, total: 60, done: true });
});

test("bytes that are read ahead are not counted twice", () => {
  assert.deepEqual(reported((listener) => listener(event(1, 10, 100, true, "prefetch"))), []);
});

test("something that is no function is refused", () => {
  assert.throws(() => combineProgress(1), { code: "INVALID_ARGUMENT" });
});

function reported(run) {
  const reports = [];
  run(combineProgress((report) => reports.push(report)));
  return reports;
}
