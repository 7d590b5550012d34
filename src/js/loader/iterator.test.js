import assert from "node:assert/strict";
import { test } from "node:test";
import { TensorIterator } from "./iterator.js";

test("yields until there is no further tensor, then stops the load once", async () => {
  const { iterator, stops } = over([{ name: "a" }, { name: "b" }]);
  const names = [];
  for await (const { name } of iterator) names.push(name);
  assert.deepEqual(names, ["a", "b"]);
  assert.deepEqual(await iterator.next(), { value: undefined, done: true });
  assert.equal(stops(), 1);
});

test("parallel calls of next are answered in their order", async () => {
  const { iterator } = over([{ name: "a" }, { name: "b" }]);
  const results = await Promise.all([iterator.next(), iterator.next(), iterator.next()]);
  assert.deepEqual(results.map(({ value }) => value?.name), ["a", "b", undefined]);
});

test("a loop that is left stops the load", async () => {
  const { iterator, stops } = over([{ name: "a" }, { name: "b" }]);
  for await (const _ of iterator) break;
  assert.equal(stops(), 1);
  assert.equal((await iterator.next()).done, true);
});

test("return takes effect while next is pending", async () => {
  let resolve;
  let stopped = false;
  const iterator = new TensorIterator(() => new Promise((settle) => (resolve = settle)), () => (stopped = true));
  const pending = iterator.next();
  await Promise.resolve();
  assert.deepEqual(await iterator.return(1), { value: 1, done: true });
  assert.equal(stopped, true);
  resolve({ name: "late" });
  assert.deepEqual(await pending, { value: undefined, done: true });
});

test("an error is thrown once and ends the iterator", async () => {
  const failure = new Error("reset");
  const iterator = new TensorIterator(async () => { throw failure; }, () => {});
  await assert.rejects(iterator.next(), failure);
  assert.deepEqual(await iterator.next(), { value: undefined, done: true });
});

test("throw stops the load and rejects", async () => {
  const { iterator, stops } = over([{ name: "a" }]);
  const reason = new Error("stop");
  await assert.rejects(iterator.throw(reason), reason);
  assert.equal(stops(), 1);
});

function over(tensors) {
  let at = 0;
  let stops = 0;
  return { iterator: new TensorIterator(async () => tensors[at++], () => stops++), stops: () => stops };
}
