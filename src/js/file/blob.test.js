import assert from "node:assert/strict";
import { test } from "node:test";
import { lazyBlob } from "./blob.js";

const BYTES = new TextEncoder().encode("0123456789");

test("a slice of a slice is the same as that of a Blob", async () => {
  const real = new Blob([BYTES]);
  for (const range of [[], [2], [2, 5], [-3], [-5, -2], [5, 2], [0, 99], [-99, 3]]) {
    const [lazy, blob] = [lazyBlob(source(), "").slice(1, 9).slice(...range), real.slice(1, 9).slice(...range)];
    assert.deepEqual([lazy.size, await lazy.text()], [blob.size, await blob.text()], `${range}`);
  }
});

test("only the bytes of a slice are read, when they are needed", async () => {
  const reads = [];
  const slice = lazyBlob(source(reads), "").slice(2, 5);
  assert.deepEqual(reads, []);
  await slice.arrayBuffer();
  assert.deepEqual(reads, [{ start: 2, end: 5, signal: undefined }]);
});

test("the type is that of a Blob", () => {
  assert.equal(lazyBlob(source(), "Text/Plain").type, "text/plain");
  assert.equal(lazyBlob(source(), "a\u00e9").type, "");
  assert.equal(lazyBlob(source(), "text/plain").slice(0, 1).type, "");
  assert.equal(lazyBlob(source(), "").slice(0, 1, "A/B").type, "a/b");
});

test("what would read the empty Blob underneath fails", () => {
  const blob = lazyBlob(source(), "");
  assert.ok(blob instanceof Blob);
  assert.throws(() => structuredClone(blob), { name: "DataCloneError" });
  assert.throws(() => String(blob), { name: "DataCloneError" });
});

test("the size is unknown until the source is open", async () => {
  const pending = source();
  pending.byteLength = () => undefined;
  pending.open = async () => (pending.byteLength = () => BYTES.length);
  const blob = lazyBlob(pending, "");
  assert.throws(() => blob.size, { code: "INVALID_ARGUMENT" });
  assert.equal(await blob.slice(-1).text(), "9");
  assert.equal(blob.size, 10);
});

test("a cancelled stream aborts the read", async () => {
  const reads = [];
  const reader = lazyBlob(source(reads), "").stream().getReader();
  await reader.read();
  await reader.cancel("left");
  assert.equal(reads[0].signal.reason, "left");
});

function source(reads = []) {
  return {
    byteLength: () => BYTES.length,
    open: async () => {},
    async *read(start, end, signal) {
      reads.push({ start, end, signal });
      yield BYTES.subarray(start, (start + end) >> 1);
      yield BYTES.subarray((start + end) >> 1, end);
    },
  };
}
