import assert from "node:assert/strict";
import { test } from "node:test";
import { groupByModel, ownFiles } from "./models.js";

const file = (url, used = 1) => ({ url, cachedBytes: 10, byteLength: 9, lastUsed: new Date(used) });
const names = (models) => models.map(({ url, files }) => [url, ...files.map(({ url }) => url)]);

test("a file of no other model is a model itself", () => {
  const [model] = groupByModel([file("a", 7)], []);
  const files = [{ ...file("a", 7), model: "a" }];
  assert.deepEqual(model, { url: "a", files, cachedBytes: 10, byteLength: 9, lastUsed: new Date(7) });
});

test("a manifest and its parts are one model, with those that only updates need", () => {
  const files = [file("2"), file("d", 9), file("m"), file("x"), file("1")];
  const models = groupByModel(files, [["m", ["1", "2"], ["d", "e"]]]);
  assert.deepEqual(names(models), [["m", "m", "1", "2", "d"], ["x", "x"]]);
  assert.equal(models[0].cachedBytes, 40);
  assert.equal(models[0].byteLength, 27);
  assert.equal(models[0].lastUsed.getTime(), 9);
});

test("the length of a model is unknown while a part is missing", () => {
  assert.equal(groupByModel([file("m"), file("1")], [["m", ["1", "2"], []]])[0].byteLength, undefined);
  const unknown = { ...file("1"), byteLength: undefined };
  assert.equal(groupByModel([file("m"), unknown], [["m", ["1"], []]])[0].byteLength, undefined);
});

test("files of a numbered set are the model of the first, cached or not", () => {
  const models = groupByModel([file("3"), file("2")], [["1", ["1", "2", "3"], []]]);
  assert.deepEqual(names(models), [["1", "2", "3"]]);
});

test("a file that was loaded with several credentials counts once in the length", () => {
  const [model] = groupByModel([file("m"), file("m"), file("1")], [["m", ["1"], []], ["m", ["1"], []]]);
  assert.deepEqual([model.files.length, model.cachedBytes, model.byteLength], [3, 30, 18]);
});

test("a file of two models is in both, and names the first", () => {
  const models = groupByModel(["m", "n", "1"].map((name) => file(name)), [["m", ["1"], []], ["n", ["1"], []]]);
  assert.deepEqual(names(models), [["m", "m", "1"], ["n", "n", "1"]]);
  assert.deepEqual(models.flatMap(({ files }) => files.map(({ model }) => model)), ["m", "m", "n", "m"]);
});

test("no model takes over another one, or is taken over by itself", () => {
  const files = ["m", "n", "1", "x"].map((name) => file(name));
  const models = groupByModel(files, [["m", ["1"], []], ["n", ["m", "1", "n"], ["1"]]]);
  assert.deepEqual(names(models), [["m", "m", "1"], ["n", "n", "1"], ["x", "x"]]);
  assert.deepEqual(ownFiles(models, ["n"]), ["n"]);
  const both = groupByModel([file("m"), file("n")], [["m", ["n"], []], ["n", ["m"], []]]);
  assert.deepEqual(names(both), [["m", "m"], ["n", "n"]]);
});

test("deletes the files of a model whose manifest has changed since it was listed", () => {
  const models = groupByModel(["1", "2", "n"].map((name) => file(name)), [["n", ["2"], []]]);
  assert.deepEqual(ownFiles(models, ["m"], ["m", "1", "2"]).sort(), ["1", "m"]);
});

test("deletes what belongs to a model alone", () => {
  const found = [["m", ["1", "2"], []], ["n", ["2", "3"], []]];
  const models = groupByModel(["m", "n", "1", "2", "3", "x"].map((name) => file(name)), found);
  assert.deepEqual(ownFiles(models, ["m"]).sort(), ["1", "m"]);
  assert.deepEqual(ownFiles(models, ["2"]), ["2"]);
  assert.deepEqual(ownFiles(models, ["url of x", "x"]).sort(), ["url of x", "x"]);
  assert.deepEqual(ownFiles(models, ["unknown"]), ["unknown"]);
});
