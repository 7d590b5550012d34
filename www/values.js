// @ts-check
// Converts the values of a tensor to doubles, block by block, for the histogram and the heat map.

/** @import { TensorData } from "./pkg/weightstream.js" */

/**
 * Reads the values of a dtype: `count(data)` values, of which `read` writes as many as `out` holds.
 *
 * @typedef {object} ValueReader
 * @property {(data: any) => number} count
 * @property {(data: any, first: number, out: Float64Array) => void} read
 */

const Q8_0_VALUES = 32;
// A half-precision scale, then 32 signed bytes (ggml's block_q8_0).
const Q8_0_BYTES = 34;

/**
 * The reader for a dtype; `undefined` if this page cannot draw the dtype.
 *
 * @param {string} dtype
 * @returns {ValueReader | undefined}
 */
export function readerOf(dtype) {
  switch (dtype) {
    case "F16": return { count: lengthOf, read: readF16 };
    case "BF16": return { count: lengthOf, read: readBF16 };
    case "Q8_0": return { count: countQ8_0, read: readQ8_0 };
    case "I64": case "U64": return { count: lengthOf, read: readBigInts };
    case "F32": case "F64": case "BOOL":
    case "I8": case "U8": case "I16": case "U16": case "I32": case "U32":
      return { count: lengthOf, read: readPlain };
    default: return undefined;
  }
}

/** @param {string} dtype */
export function isInteger(dtype) {
  return /^[IU]\d+$|^BOOL$/.test(dtype);
}

/** @param {TensorData} data */
function lengthOf(data) {
  return data.length;
}

/** @type {ValueReader["read"]} */
function readPlain(data, first, out) {
  out.set(data.subarray(first, first + out.length));
}

/** @type {ValueReader["read"]} */
function readBigInts(data, first, out) {
  for (let i = 0; i < out.length; i++) out[i] = Number(data[first + i]);
}

/** @type {ValueReader["read"]} */
function readF16(data, first, out) {
  const table = halfPrecision();
  for (let i = 0; i < out.length; i++) out[i] = table[data[first + i]];
}

// A BF16 is the upper half of an F32.
const bits = new Uint32Array(1);
const float = new Float32Array(bits.buffer);

/** @type {ValueReader["read"]} */
function readBF16(data, first, out) {
  for (let i = 0; i < out.length; i++) {
    bits[0] = data[first + i] << 16;
    out[i] = float[0];
  }
}

/** @param {Uint8Array} data */
function countQ8_0(data) {
  return Math.floor(data.length / Q8_0_BYTES) * Q8_0_VALUES;
}

/** @type {ValueReader["read"]} */
function readQ8_0(data, first, out) {
  const table = halfPrecision();
  for (let i = 0; i < out.length; i++) {
    const block = Math.floor((first + i) / Q8_0_VALUES) * Q8_0_BYTES;
    const scale = table[data[block] | (data[block + 1] << 8)];
    const quant = data[block + 2 + ((first + i) % Q8_0_VALUES)];
    out[i] = scale * ((quant << 24) >> 24);
  }
}

/** @type {Float64Array | undefined} */
let halves;

/** A table of all 65,536 half-precision numbers: a lookup is faster than decoding. */
function halfPrecision() {
  if (halves) return halves;
  halves = new Float64Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    const magnitude = exponent === 31 ? (fraction ? NaN : Infinity)
      : exponent === 0 ? fraction * 2 ** -24
      : (1024 + fraction) * 2 ** (exponent - 25);
    halves[bits] = bits & 0x8000 ? -magnitude : magnitude;
  }
  return halves;
}
