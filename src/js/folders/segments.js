// @ts-check
// Pieces of a file in the order in which they arrived, many in one file of the folder: a folder of the user would
// otherwise have a file for each MiB, and a browser scans every file that a page writes there. A segment exists once it
// is complete, and has an index at its end, so no other file must be written with it.
//
// | bytes | content |
// | --- | --- |
// | … | the pieces |
// | … | JSON: an array of pairs, the key of a piece and its length |
// | 4 + 8 | length of the JSON, little-endian, and `WSPART01` |
import { fileIn, writableIn } from "./handles.js";
import { pieceOf } from "./keys.js";

/** @import { Folder } from "./handles.js" */

const SUFFIX = ".part";
const MAGIC = "WSPART01";
const END_BYTES = 12;

/** An index of one of our segments is shorter. */
const MAX_INDEX_BYTES = 4 << 20;

/** @param {string} name */
export const isSegment = (name) => name.endsWith(SUFFIX);

/** Names in the order of their creation, so that a later copy of a damaged piece replaces it. */
const newName = () => `${Date.now().toString(36).padStart(9, "0")}-${crypto.randomUUID()}${SUFFIX}`;

/** Where a piece is. */
/** @typedef {{ rest: string, at: number, byteLength: number }} Indexed */

/** A segment that is being written. Nothing of it can be read until it is closed. */
export class SegmentWriter {
  byteLength = 0;
  startedMs = Date.now();
  name = newName();
  /** @type {[rest: string, byteLength: number][]} */
  #index = [];
  #writable;

  /** @param {Folder} folder */
  constructor(folder) {
    this.#writable = writableIn(folder, this.name);
    this.#writable.catch(() => {}); // the first `add` rejects
  }

  /**
   * Returns the position of the piece in the segment.
   *
   * @param {string} rest
   * @param {Uint8Array<ArrayBuffer>} bytes
   */
  async add(rest, bytes) {
    await (await this.#writable).write(bytes);
    this.#index.push([rest, bytes.length]);
    const at = this.byteLength;
    this.byteLength += bytes.length;
    return at;
  }

  async close() {
    const writable = await this.#writable;
    const index = new TextEncoder().encode(JSON.stringify(this.#index));
    const end = new DataView(new ArrayBuffer(4));
    end.setUint32(0, index.length, true);
    await writable.write(new Blob([index, end, MAGIC]));
    await writable.close();
  }

  async abort() {
    await (await this.#writable).abort();
  }
}

/**
 * The pieces of a segment. Undefined if it is damaged or not complete.
 *
 * @param {File} file
 * @returns {Promise<Indexed[] | undefined>}
 */
export async function indexOf(file) {
  const end = new Uint8Array(await file.slice(-END_BYTES).arrayBuffer());
  if (end.length < END_BYTES || new TextDecoder().decode(end.subarray(4)) !== MAGIC) return undefined;
  const length = new DataView(end.buffer).getUint32(0, true);
  const dataBytes = file.size - END_BYTES - length;
  if (length > MAX_INDEX_BYTES || dataBytes < 0) return undefined;
  const pairs = parsed(await file.slice(dataBytes, dataBytes + length).text());
  if (!Array.isArray(pairs)) return undefined;
  /** @type {Indexed[]} */
  const found = [];
  let at = 0;
  for (const pair of pairs) {
    const [rest, byteLength] = Array.isArray(pair) ? pair : [];
    const piece = pieceOf(rest);
    if (!piece || byteLength !== piece.end - piece.start) return undefined;
    found.push({ rest, at, byteLength });
    at += byteLength;
  }
  return at === dataBytes ? found : undefined;
}

/** @param {string} json */
function parsed(json) {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/**
 * Part of a segment, as a Blob that is read from the disk. Undefined if the segment does not exist.
 *
 * @param {Folder | undefined} folder
 * @param {string} name
 * @param {number} start
 * @param {number} end
 */
export async function sliceOf(folder, name, start, end) {
  return (await fileIn(folder, name))?.slice(start, end);
}
