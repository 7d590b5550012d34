// @ts-check
// A Blob whose bytes are read when they are needed.
import { byteStream } from "./weightstream.stream.js";

/** @import { Pieces } from "./weightstream.stream.js" */

/**
 * What a lazy Blob reads from: yields the bytes `[start, end)`.
 *
 * @typedef {(start: number, end: number, signal?: AbortSignal) => Pieces} ReadPieces
 */

/** @typedef {{ read: ReadPieces, start: number, end: number, type: string }} Content */

/** @type {WeakMap<object, Content>} */
const contents = new WeakMap();

/**
 * The name of a property whose getter throws: cloning a lazy Blob must fail. An object without a Blob underneath would
 * otherwise be cloned as an empty object.
 */
const NOT_CLONEABLE = "weightstream lazy Blob";

/**
 * Creates a Blob of `byteLength` bytes that `read` provides.
 *
 * The object inherits from Blob but has no Blob underneath. So everything that would bypass its methods fails with an
 * error, instead of reading an empty Blob: `structuredClone`, `postMessage`, `URL.createObjectURL`, `FileReader`,
 * `new Response(blob)`, `new Blob([blob])`.
 *
 * @param {number} byteLength
 * @param {string} type
 * @param {ReadPieces} read
 * @returns {Blob}
 */
export const lazyBlob = (byteLength, type, read) => create({ read, start: 0, end: byteLength, type });

/** @param {Content} content */
function create(content) {
  /** @type {LazyBlob} */
  const blob = Object.create(LazyBlob.prototype);
  contents.set(blob, content);
  Object.defineProperty(blob, NOT_CLONEABLE, { enumerable: true, get: failToConvert });
  return blob;
}

class LazyBlob extends Blob {
  /** @override */
  get size() {
    const { start, end } = contentOf(this);
    return end - start;
  }

  /** @override */
  get type() {
    return contentOf(this).type;
  }

  /**
   * @override
   * @param {number} [first]
   * @param {number} [last]
   * @param {string} [type]
   */
  slice(first, last, type = "") {
    const { read, start, end } = contentOf(this);
    const from = clamp(first ?? 0, end - start);
    const to = Math.max(clamp(last ?? end - start, end - start), from);
    return create({ read, start: start + from, end: start + to, type: normalized(type) });
  }

  /**
   * @override
   * @returns {ReadableStream<Uint8Array<ArrayBuffer>>}
   */
  stream() {
    const { read, start, end } = contentOf(this);
    return byteStream((signal) => read(start, end, signal));
  }

  /** @override */
  async arrayBuffer() {
    return (await this.bytes()).buffer;
  }

  /** @override */
  async bytes() {
    const { read, start, end } = contentOf(this);
    const bytes = new Uint8Array(end - start);
    let at = 0;
    for await (const piece of read(start, end)) {
      bytes.set(piece, at);
      at += piece.length;
    }
    return bytes;
  }

  /** @override */
  async text() {
    return new TextDecoder().decode(await this.bytes());
  }

  /** Called where a Blob is expected but this object has no Blob underneath: by `new Response` and `new Blob`. */
  toString() {
    return failToConvert();
  }
}

/** @param {object} blob */
function contentOf(blob) {
  const content = contents.get(blob);
  if (!content) throw new TypeError("This is not a lazy Blob.");
  return content;
}

/** @returns {never} */
function failToConvert() {
  const message = "A lazy Blob of weightstream cannot be cloned, posted, cached or given a URL. " +
    "Use file() of the RemoteFile for that, or new Blob([await blob.arrayBuffer()]).";
  throw new DOMException(message, "DataCloneError");
}

/**
 * The index that an argument of `slice` stands for.
 *
 * @param {number} index
 * @param {number} size
 */
function clamp(index, size) {
  const whole = Math.trunc(Number(index)) || 0;
  return whole < 0 ? Math.max(size + whole, 0) : Math.min(whole, size);
}

/**
 * As the specification of Blob has it: lower case, and nothing if there is a character outside printable ASCII.
 *
 * @param {string} type
 */
const normalized = (type) => (/^[\x20-\x7e]*$/.test(type) ? type.toLowerCase() : "");
