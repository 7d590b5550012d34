// @ts-check
// The keys under which the module stores what it caches, as `src/cache/chunked_kv.rs` describes them, and the head of a
// file, as `src/cache/record.rs` does.

/** Keys of the locations of contents, by their digests. */
export const CONTENT = "weightstream.content.";

const KEY = /^weightstream\.([0-9a-f]{32})\.(.*)$/;
const PIECE = /^([0-9a-f]{1,16})\.([0-9a-f]{1,14})\.([0-9a-f]{1,14})\.[0-9a-f]{1,8}$/;

/** Length of a head without its text. */
const HEAD_BYTES = 36;

/**
 * The name of a file, which is a hash, and the rest of a key: `head`, `used`, or a piece. Undefined for other keys.
 *
 * @param {string} key
 */
export function split(key) {
  const [, name, rest] = KEY.exec(key) ?? [];
  return name === undefined || rest === undefined ? undefined : { name, rest };
}

/**
 * @param {string} name
 * @param {string} rest
 */
export const keyOf = (name, rest) => `weightstream.${name}.${rest}`;

/**
 * A range of a file, which is stored as one value. The key contains the checksum of its bytes.
 *
 * @typedef {{ generation: string, start: number, end: number }} Piece
 */

/**
 * The piece of this key. Undefined if it is the key of something else.
 *
 * @param {unknown} rest
 * @returns {Piece | undefined}
 */
export function pieceOf(rest) {
  const [, generation = "", first = "", last = ""] = (typeof rest === "string" && PIECE.exec(rest)) || [];
  const [start, end] = [parseInt(first, 16), parseInt(last, 16)];
  return Number.isSafeInteger(end) && start < end ? { generation, start, end } : undefined;
}

/**
 * What a head says about its file: the name in the cache, the version, and the length if the server has stated it.
 *
 * @typedef {{ url: string, generation: string, byteLength: number | undefined }} Description
 */

/**
 * Undefined for bytes that are no head. The module checks the checksum of a head when it reads it.
 *
 * @param {Uint8Array | undefined} bytes
 * @returns {Description | undefined}
 */
export function describedBy(bytes) {
  if (!bytes || bytes.length < HEAD_BYTES) return undefined;
  const generation = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(HEAD_BYTES - 8, true).toString(16);
  const [key = "", length = ""] = new TextDecoder().decode(bytes.subarray(HEAD_BYTES)).split("\n");
  const url = key.slice(key.indexOf("\t") + 1); // without the hash of credentials
  const byteLength = /^\d+$/.test(length) ? Number(length) : undefined;
  return { url, generation, byteLength };
}
