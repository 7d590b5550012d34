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
 */
export async function loadInChunks(reader, onChunk) {
  const head = /** @type {TensorHead} */ (await reader.next()); // a loader without this tensor rejects
  const memory = allocated(head);
  let offset = 0;
  do {
    const piece = await reader.fill(CHUNK_BYTES);
    const bytes = new Uint8Array(memory, offset, piece.length);
    bytes.set(piece);
    if (bytes.length > 0) await onChunk({ offset, bytes });
    offset += bytes.length;
  } while (offset < head.byteLength);
  return tensorOf(head, memory, await reader.verified());
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
