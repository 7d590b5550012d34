// @ts-check
// Loads a tensor and passes its bytes on while they arrive.
import { fail } from "./error.js";

/** @import * as Api from "../weightstream.js" */
/** @import { TensorHead, TensorReader } from "../module/glue.js" */

/** The length of a chunk. A request is not made for each: a smaller chunk arrives sooner, but costs a call. */
const CHUNK_BYTES = 1024 * 1024;

/**
 * Loads the next tensor of a reader. The last chunk is passed only if the tensor is verified.
 *
 * @param {TensorReader} reader
 * @param {(chunk: Api.TensorChunk) => unknown} onChunk
 * @param {Promise<never>} stopped Rejects when the load must end, even if the caller never settles a chunk.
 */
export async function loadInChunks(reader, onChunk, stopped) {
  const head = /** @type {TensorHead} */ (await reader.next()); // a loader without this tensor rejects
  const memory = allocated(head);
  let offset = 0;
  do {
    const piece = await reader.fill(CHUNK_BYTES);
    checkAttached(head, memory);
    const bytes = new Uint8Array(memory, offset, piece.length);
    bytes.set(piece);
    offset += piece.length;
    if (piece.length === 0) continue;
    const given = onChunk({ offset: offset - piece.length, bytes });
    await Promise.race([stopped, given]); // in this order, because the caller may have aborted in the call
  } while (offset < head.byteLength);
  checkAttached(head, memory);
  return tensorOf(head, memory, await reader.verified());
}

/**
 * @param {TensorHead} head
 * @param {ArrayBuffer} memory
 */
function checkAttached({ name, byteLength }, memory) {
  if (memory.byteLength === byteLength) return;
  const message = `tensor "${name}": \`onChunk\` has transferred the memory of the tensor. Copy the bytes instead.`;
  throw fail({ code: "INVALID_ARGUMENT", message, tensor: name });
}

/** @param {TensorHead} head */
function allocated({ name, byteLength }) {
  try {
    return new ArrayBuffer(byteLength);
  } catch (cause) {
    const message = `tensor "${name}": ${byteLength} bytes cannot be allocated. Load \`rows\` of it.`;
    throw fail({ code: "LIMIT", message, tensor: name, cause });
  }
}

/**
 * @param {TensorHead} head
 * @param {ArrayBuffer} memory
 * @param {Api.Verified} verified
 */
function tensorOf({ name, role, dtype, shape, arrayClass }, memory, verified) {
  const data = new (/** @type {any} */ (globalThis)[arrayClass])(memory);
  return { name, dtype, shape, layout: "dense", data, components: new Map([[role, { dtype, data }]]), verified };
}
