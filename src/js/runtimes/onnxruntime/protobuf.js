// @ts-check
// The fields of Protobuf messages.
import { invalid } from "../../loader/error.js";

/**
 * A field of a message: its number, the bytes of a field that has a length, and the whole field with its key.
 *
 * @typedef {{ number: number, content?: Uint8Array<ArrayBuffer>, whole: Uint8Array<ArrayBuffer> }} Field
 */

/**
 * The fields of a message.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {Generator<Field>}
 */
export function* fields(bytes) {
  let at = 0;

  /** Numbers above 2^53 are rounded: they are not those of fields, and lie outside the message. */
  function varint() {
    for (let value = 0, factor = 1; ; factor *= 128) {
      const byte = bytes[at++];
      if (byte === undefined) throw malformed();
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  }

  while (at < bytes.length) {
    const start = at;
    const key = varint();
    const wireType = key % 8;
    /** @type {Uint8Array<ArrayBuffer> | undefined} */
    let content;
    if (wireType === 0) varint();
    else if (wireType === 1) at += 8;
    else if (wireType === 5) at += 4;
    else if (wireType === 2) {
      const end = varint() + at;
      if (end > bytes.length) throw malformed();
      content = bytes.subarray(at, end);
      at = end;
    } else throw malformed();
    yield { number: Math.floor(key / 8), ...(content && { content }), whole: bytes.subarray(start, at) };
  }
}

/**
 * A field with these bytes, in several pieces.
 *
 * @param {number} number At most 15.
 * @param {Uint8Array<ArrayBuffer>[]} content
 * @returns {Uint8Array<ArrayBuffer>[]}
 */
export function field(number, content) {
  const head = [number * 8 + 2];
  let length = content.reduce((sum, { length }) => sum + length, 0);
  for (; length >= 128; length = Math.floor(length / 128)) head.push((length % 128) + 128);
  return [Uint8Array.from([...head, length]), ...content];
}

/** @param {string} text */
export const encoded = (text) => new TextEncoder().encode(text);

/** @param {Uint8Array<ArrayBuffer>} bytes */
export const decoded = (bytes) => new TextDecoder().decode(bytes);

/**
 * The key and the value of an entry, which are the texts of the fields 1 and 2.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {[key: string, value: string]}
 */
export function entryOf(bytes) {
  const texts = new Map([...fields(bytes)].map(({ number, content }) => [number, content && decoded(content)]));
  return [texts.get(1) ?? "", texts.get(2) ?? ""];
}

export const malformed = () => invalid("`graph` is not an ONNX model");
