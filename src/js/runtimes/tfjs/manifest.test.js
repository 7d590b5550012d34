import assert from "node:assert/strict";
import { test } from "node:test";
import { byteLengthOf, checkModel, weightsIn } from "./manifest.js";

const URL = "https://a.test/model.json";
const weight = { name: "w", shape: [2, 3], dtype: "float32" };
const group = { paths: ["a.bin"], weights: [weight] };

test("a list of weights is a model without a topology", () => {
  const model = checkModel([group, group], URL);
  assert.deepEqual(weightsIn(model.weightsManifest), [weight, weight]);
});

test("a model without weights is complete", () => {
  assert.deepEqual(checkModel({ modelTopology: {}, weightsManifest: null }, URL), { modelTopology: {} });
});

test("what does not locate its weights is refused", () => {
  const broken = [
    null, "a", {}, { weightsManifest: {} }, [null], [{ weights: [] }], [{ paths: [""], weights: [] }],
    [{ paths: ["a"] }], [{ ...group, weights: [{ ...weight, name: 1 }] }],
    [{ ...group, weights: [{ ...weight, shape: [-1] }] }], [{ ...group, weights: [{ ...weight, shape: [2 ** 52] }] }],
  ];
  for (const json of broken) assert.throws(() => checkModel(json, URL), { code: "FORMAT" }, JSON.stringify(json));
  const unknown = [{ ...group, weights: [{ ...weight, dtype: "float8" }] }];
  assert.throws(() => checkModel(unknown, URL), { code: "UNSUPPORTED" });
});

test("the length of a weight is that of its stored values", () => {
  assert.equal(byteLengthOf(weight), 24);
  assert.equal(byteLengthOf({ ...weight, shape: [] }), 4);
  assert.equal(byteLengthOf({ ...weight, quantization: { dtype: "uint8" } }), 6);
  assert.equal(byteLengthOf({ ...weight, dtype: "string" }), undefined);
});
