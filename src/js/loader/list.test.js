import assert from "node:assert/strict";
import { test } from "node:test";
import { addFiles, addItems, addTensors } from "./list.js";

test("numbers and pieces of a text are added from an index on", () => {
  const array = ["kept"];
  addItems(array, 1, new Float64Array([1, 2]));
  addItems(array, 3, [2, 0, 3], "abcde");
  assert.deepEqual(array, ["kept", 1, 2, "ab", "", "cde"]);
});

const STRINGS = ["F32", "dense", "data", "raw"];
// A kind: dtype, shape, layout, byteLength, components. A component: role, dtype, two lengths, encoding.
const kind = (shape, byteLength) => [0, shape.length, ...shape, 1, byteLength, 1, 2, 0, byteLength, byteLength, 3];

test("a tensor of a known kind has an own shape and shares the frozen components", () => {
  const tensors = [];
  const numbers = [1, 0, 0, 64, 0, 0, ...kind([2, 3], 24), 2, 1, 0, 8, 9, 0];
  addTensors(tensors, "abbcrc32:ff", new Float64Array(numbers), STRINGS, []);
  addFiles(tensors, ["first.apr", "second.apr"]);
  const [a, b] = tensors;
  assert.deepEqual([a.name, b.name, a.shard, b.shard], ["a", "bb", 0, 1]);
  assert.deepEqual([b.dtype, b.layout, b.byteLength, b.shape], ["F32", "dense", 24, [2, 3]]);
  assert.deepEqual([a.file, a.offset, a.digest, a.parameterCount], ["first.apr", 64, undefined, 6]);
  assert.deepEqual([b.file, b.offset, b.digest, b.parameterCount], ["second.apr", 8, "crc32:ff", 6]);
  assert.notEqual(a.shape, b.shape);
  assert.equal(a.components, b.components);
  assert.ok(Object.isFrozen(a.components) && Object.isFrozen(a.components[0]) && Object.isFrozen(a.attributes));
  const component = { role: "data", dtype: "F32", byteLength: 24, storedByteLength: 24, encoding: "raw" };
  assert.deepEqual(a.components, [component]);
});

test("an unknown length is undefined, and attributes belong to their tensors", () => {
  const tensors = [];
  const numbers = [1, 0, 0, 0, 0, 0, ...kind([2], NaN), 1, 0, 1, 0, 0, 0];
  addTensors(tensors, "ab", new Float64Array(numbers), STRINGS, [{ scale: 2 }]);
  assert.equal(tensors[0].byteLength, undefined);
  assert.deepEqual(tensors.map(({ attributes }) => attributes), [{}, { scale: 2 }]);
});

test("a batch with more kinds than are numbered is complete", () => {
  const tensors = [];
  const tensor = (_, at) => [1, 0, 0, 0, 0, Math.min(at, 32), ...kind([at], 4 * at)];
  const numbers = Array.from({ length: 40 }, tensor).flat();
  addTensors(tensors, "x".repeat(40), new Float64Array(numbers), STRINGS, []);
  assert.deepEqual(tensors.map(({ shape }) => shape[0]), Array.from({ length: 40 }, (_, at) => at));
});
