import assert from "node:assert/strict";
import { test } from "node:test";
import { PIECE_BYTES, conversionOf, withoutError } from "./dequantize.js";

test("a tensor that has the dtype already, or has no floats, is not converted", () => {
  for (const dtype of ["F32", "I8", "U64", "BOOL"]) assert.equal(conversionOf("w", dtype, 64, "F32"), undefined);
  assert.equal(conversionOf("w", "BF16", 64, undefined), undefined);
});

test("a converted tensor has the length of its values", () => {
  const lengths = { F16: [2, 1], BF16: [2, 1], Q8_0: [34, 32], Q4_0: [18, 32], Q4_K: [144, 256] };
  for (const [dtype, [bytes, values]] of Object.entries(lengths)) {
    assert.equal(conversionOf("w", dtype, 3 * bytes, "F32").byteLength, 3 * values * 4, dtype);
  }
  assert.equal(conversionOf("w", "Q8_0", 34, "F16").byteLength, 64);
});

test("pieces have whole blocks, and their values begin at multiples of 256 bytes", () => {
  for (const [dtype, bytes, values] of [["F32", 4, 1], ["Q8_0", 34, 32], ["Q4_0", 18, 32], ["Q4_K", 144, 256]]) {
    const { pieceBytes } = conversionOf("w", dtype, bytes, "F16") ?? {};
    assert.ok(pieceBytes <= PIECE_BYTES && pieceBytes % bytes === 0, dtype);
    assert.equal(((pieceBytes / bytes) * values * 2) % 256, 0, dtype);
  }
});

test("a dtype without a conversion, or a part of a block, is refused", () => {
  for (const [dtype, bytes] of [["Q6_K", 210], ["Q8_0", 33], ["constructor", 8]]) {
    assert.throws(() => conversionOf("w", dtype, bytes, "F32"), { code: "UNSUPPORTED", tensor: "w" });
  }
});

test("errors of the GPU are those of the operation", async () => {
  assert.equal(await withoutError(device(), () => 1), 1);
  await assert.rejects(withoutError(device({ message: "full" }), () => 1), { code: "LIMIT" });
  await assert.rejects(withoutError(device(null, { message: "usage" }), () => 1), { code: "INVALID_ARGUMENT" });
});

test("error scopes are closed after an exception", async () => {
  const gpu = device();
  const failure = new Error("lost");
  await assert.rejects(withoutError(gpu, () => { throw failure; }), failure);
  assert.equal(gpu.scopes.length, 0);
});

/** A device whose scopes report these errors. */
function device(memory = null, validation = null) {
  const scopes = [];
  return {
    scopes,
    pushErrorScope: (filter) => scopes.push(filter),
    popErrorScope: async () => (scopes.pop() === "validation" ? validation : memory),
  };
}
