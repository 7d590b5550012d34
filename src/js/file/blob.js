// @ts-check
// A Blob whose bytes are read when they are needed.
import { fail } from "../loader/error.js";
import { byteStream } from "./stream.js";

/** @import { Pieces } from "./stream.js" */

/**
 * What a lazy Blob reads from: yields the bytes `[start, end)`.
 *
 * @typedef {(start: number, end: number, signal?: AbortSignal) => Pieces} ReadPieces
 */

/**
 * The file that a lazy Blob and its slices are ranges of. `byteLength` is `undefined` until `open` has resolved, which
 * `read` and the methods of the Blob wait for.
 *
 * @typedef {object} BlobSource
 * @property {() => number | undefined} byteLength
 * @property {() => Promise<unknown>} open
 * @property {ReadPieces} read
 * @property {() => Promise<boolean>} [hasFileChecks] Whether a read of all bytes is verified in more ways than reads
 *   of its parts. Not, if it is missing.
 */

/**
 * @typedef {object} Content
 * @property {BlobSource} source
 * @property {(byteLength: number) => [start: number, end: number]} range The range of the file of this length.
 * @property {string} type
 */

/** @type {WeakMap<object, Content>} */
const contents = new WeakMap();

/**
 * The name of a property whose getter throws: cloning a lazy Blob must fail. An object without a Blob underneath would
 * otherwise be cloned as an empty object.
 */
const NOT_CLONEABLE = "weightstream lazy Blob";

const SIZE_UNKNOWN = "The size of the Blob is unknown until the index of all files of the model is read. Use " +
  "`await loader.toBlob()`, or call `loader.loadIndex()` first.";

/**
 * Creates a Blob of all bytes of `source`.
 *
 * The object inherits from Blob but has no Blob underneath. So everything that would bypass its methods fails with an
 * error, instead of reading an empty Blob: `structuredClone`, `postMessage`, `URL.createObjectURL`, `FileReader`,
 * `new Response(blob)`, `new Blob([blob])`.
 *
 * @param {BlobSource} source
 * @param {string} type
 * @returns {Blob}
 */
export const lazyBlob = (source, type) =>
  create({ source, range: (byteLength) => [0, byteLength], type: normalized(type) });

/**
 * What a lazy Blob reads from.
 *
 * @param {Blob} blob
 */
export const sourceOf = (blob) => contentOf(blob).source;

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
    const { source, range } = contentOf(this);
    const byteLength = source.byteLength();
    if (byteLength === undefined) throw fail({ code: "INVALID_ARGUMENT", message: SIZE_UNKNOWN });
    const [start, end] = range(byteLength);
    return end - start;
  }

  /** @override */
  get type() {
    return contentOf(this).type;
  }

  /**
   * @override
   * @param {[start?: any, end?: any, type?: any]} given
   */
  slice(...given) {
    const { source, range } = contentOf(this);
    const [first = 0, last = Infinity] = given.slice(0, 2).map((index) => index === undefined ? index : integer(index));
    const type = given[2] === undefined ? "" : normalized(`${given[2]}`);
    const part = (/** @type {number} */ byteLength) => {
      const [start, end] = range(byteLength);
      const from = clamp(first, end - start);
      const to = Math.max(clamp(last, end - start), from);
      return /** @type {[number, number]} */ ([start + from, start + to]);
    };
    return create({ source, range: part, type });
  }

  /**
   * @override
   * @returns {ReadableStream<Uint8Array<ArrayBuffer>>}
   */
  stream() {
    return byteStream((signal) => piecesOf(this, signal));
  }

  /** @override */
  async arrayBuffer() {
    return (await this.bytes()).buffer;
  }

  /** @override */
  async bytes() {
    await contentOf(this).source.open();
    const bytes = new Uint8Array(this.size);
    let at = 0;
    for await (const piece of piecesOf(this)) {
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

// Only some browsers have this method, which would read the Blob underneath.
if ("textStream" in Blob.prototype) {
  Object.defineProperty(LazyBlob.prototype, "textStream", {
    /** @this {LazyBlob} */
    value() {
      return this.stream().pipeThrough(/** @type {any} */ (new TextDecoderStream()));
    },
    writable: true,
    configurable: true,
  });
}

/**
 * @param {Blob} blob
 * @param {AbortSignal} [signal]
 */
async function* piecesOf(blob, signal) {
  const { source, range } = contentOf(blob);
  await source.open();
  const [start, end] = range(source.byteLength() ?? 0);
  yield* source.read(start, end, signal);
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
const clamp = (index, size) => (index < 0 ? Math.max(size + index, 0) : Math.min(index, size));

/** @type {boolean | undefined} Whether Blobs round indices, as the standard says. Some engines may truncate them. */
let isRounding;

/**
 * The integer that a real Blob makes of an index. Infinity lies beyond the end of any Blob.
 *
 * @param {any} index
 */
function integer(index) {
  const number = +index || 0;
  if (Number.isInteger(number) || !Number.isFinite(number)) return number;
  const isNode = "process" in globalThis; // such an index ends the process of Node.js 20
  isRounding ??= isNode || new Blob(["12"]).slice(1.5).size === 0;
  if (!isRounding) return Math.trunc(number);
  const low = Math.floor(number);
  const rest = number - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 !== 0) ? low + 1 : low; // the even one of two equally near integers
}

/**
 * As the specification of Blob has it: lower case, and nothing if there is a character outside printable ASCII.
 *
 * @param {string} type
 */
const normalized = (type) => (/^[\x20-\x7e]*$/.test(type) ? type.toLowerCase() : "");
