import assert from "node:assert/strict";
import { test } from "node:test";
import { joined, tensorRanges } from "./ranges.js";

const KIB = 1024;

test("tensors follow each other up to the end of the file", () => {
  assert.deepEqual(tensorRanges([{ byteLength: 4 }, { byteLength: 0 }, { byteLength: 6 }], 100), [
    [90, 94], [94, 94], [94, 100],
  ]);
});

test("small neighbours are read together, when the first of them is needed", () => {
  const big = /** @type {[number, number]} */ ([0, 100 * KIB]);
  const [a, b, c] = [100, 110, 120].map((at) => [at * KIB, (at + 10) * KIB]);
  assert.deepEqual(joined([c, big, a, b]), [[100 * KIB, 130 * KIB], big]);
});

test("ranges that do not touch stay apart, and together they are at most 1 MiB", () => {
  assert.deepEqual(joined([[0, 10], [11, 20]]), [[0, 10], [11, 20]]);
  const many = Array.from({ length: 40 }, (_, at) => [at * 50 * KIB, (at + 1) * 50 * KIB]);
  assert.deepEqual(joined(many), [[0, 1000 * KIB], [1000 * KIB, 2000 * KIB]]);
});

test("empty ranges are left out, and ranges do not overlap", () => {
  assert.deepEqual(joined([[5, 5], [0, 10], [10, 12], [0, 10]]), [[0, 12]]);
  const [first, second, third] = [0, 100, 500].map((at) => at * KIB);
  const end = 1000 * KIB;
  assert.deepEqual(joined([[first, end], [third, end], [second, end]]), [
    [first, second], [third, end], [second, third],
  ]);
});
