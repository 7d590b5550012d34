import assert from "node:assert/strict";
import { test } from "node:test";
import { lazyBlob } from "./blob.js";
import { observed as observedSource } from "./observed.js";

function observed(length, options = {}) {
  const events = [];
  let close = () => {};
  const onProgress = (event) => events.push(event);
  const source = {
    byteLength: () => length,
    open: async () => {},
    async *read(start, end) {
      yield new Uint8Array(end - start).fill(7);
    },
  };
  const blob = lazyBlob(observedSource(source, { onProgress, ...options }, (listener) => (close = listener)), "");
  return { blob, events, close: () => close() };
}

const ends = (events) => events.filter(({ done }) => done).map(({ loaded, outcome }) => [loaded, outcome]);

test("the end is reported once, when all bytes were read", async () => {
  const { blob, events, close } = observed(10);
  await blob.slice(0, 6).arrayBuffer();
  assert.deepEqual(ends(events), []);
  await blob.slice(4, 10).arrayBuffer(); // two bytes count once
  await blob.arrayBuffer();
  close();
  assert.deepEqual(ends(events), [[10, "done"]]);
  assert.equal(events.every(({ total }) => total === 10), true);
});

test("a file of which only a part is needed ends when its source is closed", async () => {
  const { blob, events, close } = observed(10);
  assert.deepEqual(new Uint8Array(await blob.slice(2, 5).arrayBuffer()), Uint8Array.of(7, 7, 7));
  close();
  assert.deepEqual(ends(events), [[3, "done"]]);
});

test("an abort ends it, and reads reject with the reason", async () => {
  const controller = new AbortController();
  const { blob, events } = observed(10, { signal: controller.signal });
  const reason = new Error("not needed");
  controller.abort(reason);
  await assert.rejects(blob.arrayBuffer(), reason);
  assert.deepEqual(ends(events), [[0, "aborted"]]);
});

test("ranges in any order are added up", async () => {
  const { blob, events } = observed(20);
  for (const [start, end] of [[10, 12], [0, 2], [2, 4], [14, 20], [3, 15]]) await blob.slice(start, end).arrayBuffer();
  assert.deepEqual(ends(events), [[20, "done"]]);
});
