// @ts-check
// Tensors in buffers of a GPU: written in pieces while they arrive, and handed out once they are verified.
import { COPY_DST, PIECE_BYTES, STORAGE, conversionOf, withoutError } from "./dequantize.js";
import { LoadError, fail } from "../loader/error.js";

/** @import * as Api from "../weightstream.js" */
/** @import { Pieces } from "./dequantize.js" */
/** @import { TensorHead, TensorReader } from "../module/glue.js" */

/**
 * Where tensors go: `usage` without the flags that writing needs, and the dtype that floats are converted to.
 *
 * @typedef {{ device: any, usage?: number | undefined, as?: "F32" | "F16" | undefined }} Target
 */

/** Writes that the GPU has not completed take memory of the browser. */
const MAX_IN_FLIGHT_BYTES = 16 * 1024 * 1024;

const DEFAULT_USAGE = STORAGE | COPY_DST | 0x04; // copies from the buffer are allowed, too

/**
 * Moves the next tensor of a reader to a new buffer.
 *
 * @param {TensorReader} reader
 * @param {Target} target
 * @returns {Promise<Api.GpuTensor<any> | undefined>} Nothing after the last tensor.
 */
export async function nextOnGpu(reader, target) {
  const head = await reader.next();
  try {
    return head && (await moveToGpu(reader, head, target));
  } catch (error) {
    reader.fail(); // does nothing if the reader itself has ended
    throw error;
  }
}

/**
 * @param {TensorReader} reader
 * @param {TensorHead} head
 * @param {Target} target
 * @returns {Promise<Api.GpuTensor<any>>}
 */
async function moveToGpu(reader, { name, dtype, shape, byteLength }, { device, usage = DEFAULT_USAGE, as }) {
  const conversion = conversionOf(name, dtype, byteLength, as);
  const flags = usage | COPY_DST | (conversion ? STORAGE : 0);
  const gpuBuffer = await createBuffer(device, name, conversion?.byteLength ?? byteLength, flags);
  try {
    const pieces = piecesOf(reader, device, byteLength, conversion?.pieceBytes ?? PIECE_BYTES);
    await (conversion ? conversion.run(device, gpuBuffer, pieces) : write(device, gpuBuffer, pieces));
    await checkDevice(device, name);
    return {
      name,
      dtype: conversion?.dtype ?? dtype,
      shape,
      byteLength: conversion?.byteLength ?? byteLength,
      gpuBuffer,
      verified: await reader.verified(),
    };
  } catch (error) {
    gpuBuffer.destroy();
    throw error;
  }
}

/**
 * @param {any} device
 * @param {any} gpuBuffer
 * @param {Pieces} pieces
 */
async function write(device, gpuBuffer, pieces) {
  for await (const { offset, bytes } of pieces) {
    await withoutError(device, () => device.queue.writeBuffer(gpuBuffer, offset, bytes));
  }
}

/**
 * The bytes of the tensor in pieces, padded with zeros to a multiple of 4 bytes, as `writeBuffer` requires. A piece is
 * valid until the next one is requested.
 *
 * @param {TensorReader} reader
 * @param {any} device
 * @param {number} byteLength
 * @param {number} pieceBytes
 * @returns {Pieces}
 */
async function* piecesOf(reader, device, byteLength, pieceBytes) {
  let inFlightBytes = 0;
  let offset = 0;
  do {
    // The last piece is delivered only if the tensor is verified.
    const bytes = await reader.fill(pieceBytes);
    yield { offset, bytes: padded(bytes), byteLength: bytes.length };
    offset += bytes.length;
    inFlightBytes += bytes.length;
    if (inFlightBytes >= MAX_IN_FLIGHT_BYTES) {
      await device.queue.onSubmittedWorkDone();
      inFlightBytes = 0;
    }
  } while (offset < byteLength);
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
function padded(bytes) {
  if (bytes.length % 4 === 0) return bytes;
  const copy = new Uint8Array(Math.ceil(bytes.length / 4) * 4);
  copy.set(bytes);
  return copy;
}

/**
 * @param {any} device
 * @param {string} name
 * @param {number} byteLength
 * @param {number} usage
 */
async function createBuffer(device, name, byteLength, usage) {
  const size = Math.max(4, Math.ceil(byteLength / 4) * 4);
  const limits = ["maxBufferSize", ...(usage & STORAGE ? ["maxStorageBufferBindingSize"] : [])];
  for (const limit of limits) {
    const max = device.limits[limit];
    if (size <= max) continue;
    const message = `tensor "${name}" has ${size} bytes on the GPU, but the device allows ${max} (${limit}). Request ` +
      `the device with requiredLimits: { ${limit}: ${size} }, if adapter.limits.${limit} is large enough.`;
    throw fail({ code: "LIMIT", message, tensor: name });
  }
  return inTensor(name, withoutError(device, () => device.createBuffer({ label: name, size, usage })));
}

/**
 * Adds the name of the tensor to an error.
 *
 * @template T
 * @param {string} name
 * @param {Promise<T>} work
 */
async function inTensor(name, work) {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof LoadError)) throw error;
    throw fail({ code: error.code, message: `tensor "${name}": ${error.message}`, tensor: name, cause: error.cause });
  }
}

/**
 * Writes to a lost device do nothing, without an error.
 *
 * @param {any} device
 * @param {string} name
 */
async function checkDevice(device, name) {
  const lost = await Promise.race([device.lost, undefined]);
  if (!lost) return;
  const why = lost.message || lost.reason;
  const message = `the GPU device was lost while tensor "${name}" was loaded: ${why}. Request a new device and load ` +
    "the tensors again.";
  throw fail({ code: "INVALID_ARGUMENT", message, tensor: name, cause: lost });
}
