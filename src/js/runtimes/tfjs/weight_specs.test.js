import assert from "node:assert/strict";
import { test } from "node:test";
import { weightSpecs } from "./weight_specs.js";

const tensor = (dtype, others) => ({
  name: "w", shape: [2, 3], dtype, layout: "dense", components: [{ dtype }], attributes: {}, ...others,
});

test("dtypes of TensorFlow.js are passed as they are stored", () => {
  const { specs, isConverted } = weightSpecs([tensor("F32"), tensor("F16"), tensor("U8")]);
  assert.equal(isConverted, false);
  assert.deepEqual(specs, [
    { name: "w", shape: [2, 3], dtype: "float32" },
    { name: "w", shape: [2, 3], dtype: "float32", quantization: { dtype: "float16" } },
    { name: "w", shape: [2, 3], dtype: "int32", quantization: { dtype: "uint8", scale: 1, min: 0 } },
  ]);
});

test("one other float converts all floats, and no integers", () => {
  const { specs, isConverted } = weightSpecs([tensor("BF16"), tensor("F16"), tensor("I32"), tensor("BOOL")]);
  assert.equal(isConverted, true);
  assert.deepEqual(specs.map(({ dtype, quantization }) => [dtype, quantization]),
    [["float32", undefined], ["float32", undefined], ["int32", undefined], ["bool", undefined]]);
});

const quantization = { method: "tfjs", dtype: "uint8", scale: 0.5, min: -3, to: "float32" };
const quantized = (others) => tensor("F32", {
  layout: "quantized", components: [{ dtype: "U8" }], attributes: { quantization }, ...others,
});

test("codes of TensorFlow.js stay codes, unless another weight is converted", () => {
  const spec = { dtype: "float32", quantization: { dtype: "uint8", scale: 0.5, min: -3 } };
  const stored = tensor("U8", { attributes: { quantization } });
  assert.deepEqual(weightSpecs([quantized()]).specs[0], { name: "w", shape: [2, 3], ...spec });
  const { specs } = weightSpecs([quantized(), stored, tensor("F64")]);
  assert.deepEqual(specs.map(({ quantization }) => quantization?.scale), [undefined, 0.5, undefined]);
});

test("codes of another dtype than stated are not those of TensorFlow.js", () => {
  const { isConverted } = weightSpecs([quantized({ components: [{ dtype: "U16" }] })]);
  assert.equal(isConverted, true);
});

test("codes that an adapter updates become floats", () => {
  const { specs, isConverted } = weightSpecs([quantized({ layout: "adapted" }), quantized()]);
  assert.equal(isConverted, true);
  assert.deepEqual(specs.map(({ quantization }) => quantization), [undefined, undefined]);
});

test("weights of the optimizer stay in their group", () => {
  const { specs } = weightSpecs([tensor("F32", { attributes: { group: "optimizer" } }), tensor("I32")]);
  assert.deepEqual(specs.map(({ group }) => group), ["optimizer", undefined]);
});

test("integers that TensorFlow.js lacks are refused", () => {
  for (const dtype of ["I8", "I64", "U32"]) {
    assert.throws(() => weightSpecs([tensor(dtype)]), { code: "UNSUPPORTED", tensor: "w", message: new RegExp(dtype) });
  }
});
