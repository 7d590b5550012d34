// @ts-check
// Converts tensors to F32 or F16 on the GPU.
import { fail } from "../loader/error.js";

/** The maximum length of a write. Browsers copy longer writes through slower memory. */
export const PIECE_BYTES = 2 * 1024 * 1024;

// The flags of GPUBufferUsage, which exists only where WebGPU does.
export const COPY_DST = 0x08;
export const STORAGE = 0x80;
const UNIFORM = 0x40;

/** @typedef {AsyncGenerator<{ offset: number, bytes: Uint8Array<ArrayBuffer>, byteLength: number }>} Pieces */

/**
 * A dtype that can be converted: the values and bytes of a block, and the body of a WGSL function that returns the bits
 * of value `index` as F32. All arithmetic but the last operation is exact, so the result does not depend on whether the
 * device fuses operations.
 *
 * @typedef {{ values: number, bytes: number, wgsl: string }} Dtype
 */

/** @type {Record<string, Dtype>} */
const DTYPES = {
  F32: { values: 1, bytes: 4, wgsl: "return stored[index];" },
  F16: { values: 1, bytes: 2, wgsl: "return from_half(short(index * 2u));" },
  BF16: { values: 1, bytes: 2, wgsl: "return short(index * 2u) << 16u;" },
  Q8_0: {
    values: 32,
    bytes: 34,
    wgsl: `
      let block = index / 32u * 34u;
      let quant = bitcast<i32>(byte(block + 2u + index % 32u) << 24u) >> 24u;
      return bitcast<u32>(half(block) * f32(quant));`,
  },
  Q4_0: {
    values: 32,
    bytes: 18,
    wgsl: `
      let block = index / 32u * 18u;
      let quants = byte(block + 2u + index % 16u);
      let quant = i32((quants >> (index % 32u / 16u * 4u)) & 15u) - 8;
      return bitcast<u32>(half(block) * f32(quant));`,
  },
  Q4_K: {
    values: 256,
    bytes: 144,
    wgsl: `
      let block = index / 256u * 144u;
      let group = index % 256u / 32u;
      let quants = byte(block + 16u + group / 2u * 32u + index % 32u);
      let quant = (quants >> (group % 2u * 4u)) & 15u;
      let scales = block + 4u;
      var scale = byte(scales + group) & 63u;
      var minimum = byte(scales + group + 4u) & 63u;
      if (group >= 4u) {
        let low = byte(scales + group + 4u);
        scale = (low & 15u) | ((byte(scales + group - 4u) >> 6u) << 4u);
        minimum = (low >> 4u) | ((byte(scales + group) >> 6u) << 4u);
      }
      return bitcast<u32>(half(block) * f32(scale) * f32(quant) - half(block + 2u) * f32(minimum));`,
  },
};

/** Tensors of these dtypes are never converted. */
const NOT_FLOATS = /^(BOOL|[IU]\d+)$/;

/** The number of blocks in a piece is a multiple of this, so that its values begin at a multiple of 256 bytes. */
const BLOCK_MULTIPLE = 128;

const WORKGROUP_SIZE = 64;

/** @type {WeakMap<object, Map<string, Promise<any>>>} Pipelines by device, source and target dtype. */
const pipelines = new WeakMap();

/**
 * How a tensor is converted; `undefined` if it has that dtype, or is no tensor of floats.
 *
 * @param {string} name
 * @param {string} dtype
 * @param {number} byteLength
 * @param {"F32" | "F16" | undefined} as
 */
export function conversionOf(name, dtype, byteLength, as) {
  if (as === undefined || as === dtype || NOT_FLOATS.test(dtype)) return undefined;
  const block = Object.prototype.hasOwnProperty.call(DTYPES, dtype) ? DTYPES[dtype] : undefined;
  if (!block || byteLength % block.bytes !== 0) {
    const message = `tensor "${name}" is ${dtype}, which cannot be converted to ${as} on the GPU. Convertible are ` +
      `${Object.keys(DTYPES).join(", ")}: leave \`as\` out, or convert the model.`;
    throw fail({ code: "UNSUPPORTED", message, tensor: name });
  }
  const valueBytes = as === "F32" ? 4 : 2;
  const unit = block.bytes * BLOCK_MULTIPLE;
  return {
    dtype: as,
    byteLength: (byteLength / block.bytes) * block.values * valueBytes,
    pieceBytes: Math.floor(PIECE_BYTES / unit) * unit,
    /**
     * @param {any} device
     * @param {any} output
     * @param {Pieces} pieces
     */
    run: (device, output, pieces) => convert(device, output, pieces, { key: dtype, block, as, valueBytes }),
  };
}

/**
 * @param {any} device
 * @param {any} output
 * @param {Pieces} pieces
 * @param {{ key: string, block: Dtype, as: "F32" | "F16", valueBytes: number }} conversion
 */
async function convert(device, output, pieces, { key, block, as, valueBytes }) {
  const pipeline = await pipelineOf(device, key, block, as);
  /** @type {any} */
  let stored;
  /** @type {any} */
  let count;
  try {
    let outputOffset = 0;
    for await (const { bytes, byteLength } of pieces) {
      if (byteLength === 0) continue;
      const values = (byteLength / block.bytes) * block.values;
      const outputBytes = Math.ceil((values * valueBytes) / 4) * 4;
      await withoutError(device, () => {
        stored ??= device.createBuffer({ size: bytes.length, usage: STORAGE | COPY_DST });
        count ??= device.createBuffer({ size: 16, usage: UNIFORM | COPY_DST });
        // The queue runs in order: the piece before is converted before it is overwritten.
        device.queue.writeBuffer(stored, 0, bytes);
        device.queue.writeBuffer(count, 0, new Uint32Array([values]));
        const entries = [
          { binding: 0, resource: { buffer: stored } },
          { binding: 1, resource: { buffer: output, offset: outputOffset, size: outputBytes } },
          { binding: 2, resource: { buffer: count } },
        ];
        const commands = device.createCommandEncoder();
        const pass = commands.beginComputePass();
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
        pass.dispatchWorkgroups(Math.ceil(outputBytes / 4 / WORKGROUP_SIZE));
        pass.end();
        device.queue.submit([commands.finish()]);
      });
      outputOffset += outputBytes;
    }
  } finally {
    stored?.destroy();
    count?.destroy();
  }
}

/**
 * Calls `work`. The GPU reports errors only to error scopes.
 *
 * @template T
 * @param {any} device
 * @param {() => T} work
 * @returns {Promise<T>}
 */
export async function withoutError(device, work) {
  for (const filter of ["validation", "out-of-memory"]) device.pushErrorScope(filter);
  // Popped at once, before other work of the device pushes its own scopes.
  const pop = () => Promise.all([device.popErrorScope(), device.popErrorScope()]);
  /** @type {T} */
  let result;
  try {
    result = work();
  } catch (exception) {
    await pop();
    throw exception;
  }
  const [outOfMemory, refused] = await pop();
  if (outOfMemory) {
    const message = `the GPU has not enough memory: ${outOfMemory.message}. Destroy buffers that are no longer needed.`;
    throw fail({ code: "LIMIT", message, cause: outOfMemory });
  }
  if (!refused) return result;
  const message = `the GPU device refuses an operation: ${refused.message}. Check \`usage\`.`;
  throw fail({ code: "INVALID_ARGUMENT", message, cause: refused });
}

/**
 * @param {any} device
 * @param {string} key
 * @param {Dtype} block
 * @param {"F32" | "F16"} as
 * @returns {Promise<any>}
 */
function pipelineOf(device, key, block, as) {
  const ofDevice = pipelines.get(device) ?? new Map();
  pipelines.set(device, ofDevice);
  const name = `${key} as ${as}`;
  if (!ofDevice.has(name)) {
    const module = device.createShaderModule({ label: name, code: shaderOf(block, as) });
    const pipeline = device.createComputePipelineAsync({ label: name, layout: "auto", compute: { module } });
    ofDevice.set(name, pipeline);
    pipeline.catch(() => ofDevice.delete(name)); // the next load tries again
  }
  return ofDevice.get(name);
}

/**
 * Each invocation writes 4 bytes: one F32 value, or two F16 values.
 *
 * @param {Dtype} block
 * @param {"F32" | "F16"} as
 */
const shaderOf = (block, as) => `
@group(0) @binding(0) var<storage, read> stored: array<u32>;
@group(0) @binding(1) var<storage, read_write> values: array<u32>;
@group(0) @binding(2) var<uniform> count: u32;

fn byte(at: u32) -> u32 { return (stored[at / 4u] >> (at % 4u * 8u)) & 255u; }
fn short(at: u32) -> u32 { return byte(at) | (byte(at + 1u) << 8u); }
fn half(at: u32) -> f32 { return bitcast<f32>(from_half(short(at))); }

// unpack2x16float may flush subnormal values to zero.
fn from_half(bits: u32) -> u32 {
  let sign = (bits & 0x8000u) << 16u;
  let exponent = (bits >> 10u) & 31u;
  let mantissa = bits & 1023u;
  if (exponent == 31u) { return sign | 0x7f800000u | (mantissa << 13u); }
  if (exponent == 0u) { return sign | bitcast<u32>(f32(mantissa) * 0x1p-24f); }
  return sign | ((exponent + 112u) << 23u) | (mantissa << 13u);
}

fn value(index: u32) -> u32 {
  ${block.wgsl}
}

// pack2x16float does not specify the rounding. This rounds to nearest, ties to even.
fn to_half(bits: u32) -> u32 {
  let sign = (bits >> 16u) & 0x8000u;
  let magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) { return sign | 0x7e00u | ((magnitude >> 13u) & 0x3ffu); }
  if (magnitude >= 0x477ff000u) { return sign | 0x7c00u; }
  if (magnitude >= 0x38800000u) { return sign | rounded(magnitude - 0x38000000u, 13u); }
  if (magnitude <= 0x33000000u) { return sign; }
  return sign | rounded((magnitude & 0x7fffffu) | 0x800000u, 126u - (magnitude >> 23u));
}

fn rounded(bits: u32, shift: u32) -> u32 {
  let kept = bits >> shift;
  let dropped = bits & ((1u << shift) - 1u);
  let tie = 1u << (shift - 1u);
  return kept + select(0u, 1u, dropped > tie || (dropped == tie && (kept & 1u) == 1u));
}

fn half_value(index: u32) -> u32 {
  if (index >= count) { return 0u; }
  return to_half(value(index));
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= min(arrayLength(&values), count)) { return; }
  values[id.x] = ${as === "F32" ? "value(id.x)" : "half_value(id.x * 2u) | (half_value(id.x * 2u + 1u) << 16u)"};
}
`;
