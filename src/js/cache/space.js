// @ts-check
// Compares a model with the storage and the memory of the platform. What the platform does not say is undefined.
import { platformSpace } from "../module/location.js";
import { answered, persisted } from "./storage.js";

/** @import * as Api from "../weightstream.js" */
/** @import { CheckedOpenOptions } from "../module/glue.js" */

/** Buffers of the module: their positions have 32 bits. */
const MAX_BUFFER_BYTES = 2 ** 32 - 1;

/** Values of `navigator.deviceMemory` from this one on may stand for any larger memory. */
const MAX_DEVICE_MEMORY_GIB = 8;

/**
 * Compares a model with the storage and the memory of the platform.
 *
 * @param {readonly Api.TensorInfo[]} tensors
 * @param {boolean} isCaching Whether the model will be cached.
 * @param {CheckedOpenOptions["cache"]} cache
 * @param {number} cachedBytes How much of the model is cached.
 * @returns {Promise<Api.Fit>}
 */
export async function fitOf(tensors, isCaching, cache, cachedBytes) {
  const components = tensors.flatMap(({ components }) => components);
  const byteLength = components.reduce((sum, { storedByteLength }) => sum + storedByteLength, 0);
  const [space, isPersisted] = await Promise.all([platformSpace() ?? browserSpace(), persisted()]);
  const needed = isCaching ? Math.max(0, byteLength - cachedBytes) : 0;
  const available = typeof cache === "object" ? undefined : space.storage;
  return {
    byteLength,
    storage: { needed, available, fits: needed === 0 ? true : isAtMost(needed, available) },
    memory: memoryOf(tensors.map(({ byteLength }) => byteLength), space),
    persisted: isPersisted,
  };
}

/**
 * @param {(number | undefined)[]} lengths
 * @param {Space} space
 * @returns {Api.Fit["memory"]}
 */
function memoryOf(lengths, { memory: limit, isMemoryCapped }) {
  const known = lengths.filter((length) => length !== undefined);
  const isKnown = known.length === lengths.length;
  const needed = isKnown ? known.reduce((sum, length) => sum + length, 0) : undefined;
  const largest = known.reduce((max, length) => Math.max(max, length), 0);
  const isSmaller = isAtMost(needed, limit);
  const fits = !canAllocate(largest) ? false : isSmaller === false && isMemoryCapped ? undefined : isSmaller;
  return { needed, largest: isKnown ? largest : undefined, limit, fits };
}

/**
 * @param {number | undefined} needed
 * @param {number | undefined} available
 */
const isAtMost = (needed, available) =>
  needed === undefined || available === undefined ? undefined : needed <= available;

/**
 * Whether there can be a buffer of this length: engines limit it below the limit of the module, and only an attempt
 * shows how.
 *
 * @param {number} length
 */
function canAllocate(length) {
  if (length > MAX_BUFFER_BYTES) return false;
  try {
    const buffer = /** @type {any} */ (new ArrayBuffer(length));
    buffer.transfer?.(0); // frees it now
    return true;
  } catch {
    return false;
  }
}

/** @typedef {import("../module/location.js").Space} Space */

/** @returns {Promise<Space>} */
async function browserSpace() {
  const { navigator } = /** @type {any} */ (globalThis);
  const { quota, usage } = (await answered(navigator?.storage?.estimate?.()).catch(() => undefined)) ?? {};
  const storage = quota === undefined ? undefined : Math.max(0, quota - (usage ?? 0));
  const gib = navigator?.deviceMemory;
  if (gib === undefined) return { storage };
  return { storage, memory: gib * 2 ** 30, isMemoryCapped: gib >= MAX_DEVICE_MEMORY_GIB };
}
