// @ts-check
// The blocks of a file that were read last, kept in memory so that reads which overlap request no byte twice.

/** The unit in which bytes are requested and kept: two reads in the same block are one request. */
const BLOCK_BYTES = 64 * 1024;

/** The bytes that are read, and kept or evicted, at once. */
const CHUNK_BYTES = 1024 * 1024;

/**
 * Reads the bytes `[start, end)` of a file. Each call of the returned function resolves to the next bytes, at most as
 * many as fit into the buffer it is given, which it may transfer; to `undefined` at the end.
 *
 * @typedef {{ read(length: number): Promise<Uint8Array<ArrayBuffer> | undefined>, cancel(): void }} RangeReader
 */

/** A chunk of neighbouring blocks that have arrived. */
/** @typedef {{ start: number, bytes: Uint8Array<ArrayBuffer> }} Chunk */

/** Keeps the blocks that were used last, and joins readers that need the same bytes at the same time. */
export class BlockCache {
  #byteLength;
  #open;
  #maxBytes;
  #keptBytes = 0;
  /** @type {Map<number, Chunk>} Chunks by block number. */
  #chunkOfBlock = new Map();
  /** @type {Set<Chunk>} In the order of their last use. */
  #chunks = new Set();
  /** @type {Set<Transfer>} */
  #transfers = new Set();

  /**
   * @param {number} byteLength The length of the file.
   * @param {number} maxBytes How many bytes are kept.
   * @param {(start: number, end: number) => RangeReader} open Begins to read a range.
   */
  constructor(byteLength, maxBytes, open) {
    this.#byteLength = byteLength;
    this.#maxBytes = maxBytes;
    this.#open = open;
  }

  /**
   * Yields the bytes `[start, end)` in pieces. The pieces are views of kept chunks: copy them, and do not change them.
   *
   * @param {number} start
   * @param {number} end
   * @param {AbortSignal} [signal] Stops the read, and the request if no other read waits for it.
   */
  async *read(start, end, signal) {
    /** @type {Transfer | undefined} */
    let transfer;
    const leave = () => {
      transfer?.leave();
      transfer = undefined;
    };
    signal?.addEventListener("abort", leave);
    try {
      for (let position = start; position < end;) {
        signal?.throwIfAborted();
        let chunk = this.#use(position);
        if (!chunk) {
          const next = this.#transferOf(position, end);
          if (next !== transfer) {
            leave();
            (transfer = next).join();
          }
          chunk = await next.readTo(position);
        }
        const from = position - chunk.start;
        const piece = chunk.bytes.subarray(from, Math.min(chunk.bytes.length, end - chunk.start));
        position += piece.length;
        yield piece;
      }
    } finally {
      signal?.removeEventListener("abort", leave);
      leave();
    }
  }

  /** Frees the memory. */
  clear() {
    this.#chunkOfBlock.clear();
    this.#chunks.clear();
    this.#keptBytes = 0;
  }

  /**
   * The kept chunk with this byte.
   *
   * @param {number} position
   */
  #use(position) {
    const chunk = this.#chunkOfBlock.get(Math.floor(position / BLOCK_BYTES));
    if (chunk && this.#chunks.delete(chunk)) this.#chunks.add(chunk);
    return chunk;
  }

  /**
   * The transfer that brings the byte at `position`: a running one, or a new one of all blocks up to `end` that are
   * neither kept nor on their way.
   *
   * @param {number} position
   * @param {number} end
   */
  #transferOf(position, end) {
    for (const transfer of this.#transfers) if (transfer.brings(position)) return transfer;
    const start = Math.floor(position / BLOCK_BYTES) * BLOCK_BYTES;
    let stop = start + BLOCK_BYTES;
    const isKnown = (/** @type {number} */ at) =>
      this.#chunkOfBlock.has(at / BLOCK_BYTES) || [...this.#transfers].some((transfer) => transfer.brings(at));
    while (stop < end && !isKnown(stop)) stop += BLOCK_BYTES;
    const transfer = new Transfer(start, Math.min(stop, this.#byteLength), this.#open, (chunk) => this.#keep(chunk),
      () => this.#transfers.delete(transfer));
    this.#transfers.add(transfer);
    return transfer;
  }

  /** @param {Chunk} chunk */
  #keep(chunk) {
    this.#chunks.add(chunk);
    this.#keptBytes += chunk.bytes.length;
    for (const block of blocksOf(chunk)) this.#chunkOfBlock.set(block, chunk);
    for (const oldest of this.#chunks) {
      if (this.#keptBytes <= this.#maxBytes || oldest === chunk) break;
      this.#chunks.delete(oldest);
      this.#keptBytes -= oldest.bytes.length;
      for (const block of blocksOf(oldest)) this.#chunkOfBlock.delete(block);
    }
  }
}

/** @param {Chunk} chunk */
function* blocksOf({ start, bytes }) {
  for (let at = start; at < start + bytes.length; at += BLOCK_BYTES) yield at / BLOCK_BYTES;
}

/**
 * One request for neighbouring blocks. It advances only while a reader waits for its bytes, and ends when its last
 * reader leaves.
 */
class Transfer {
  #position;
  #end;
  #open;
  #keep;
  #onEnd;
  #readers = 0;
  /** @type {RangeReader | undefined} */
  #source;
  /** @type {Promise<Chunk> | undefined} The chunk that is being read. */
  #next;

  /**
   * @param {number} start
   * @param {number} end
   * @param {(start: number, end: number) => RangeReader} open
   * @param {(chunk: Chunk) => void} keep
   * @param {() => void} onEnd
   */
  constructor(start, end, open, keep, onEnd) {
    this.#position = start;
    this.#end = end;
    this.#open = open;
    this.#keep = keep;
    this.#onEnd = onEnd;
  }

  /** @param {number} position */
  brings(position) {
    return position >= this.#position && position < this.#end;
  }

  join() {
    this.#readers++;
  }

  leave() {
    if (--this.#readers === 0) this.#stop();
  }

  /**
   * Reads on up to the chunk with this byte.
   *
   * @param {number} position
   */
  async readTo(position) {
    for (;;) {
      const chunk = await (this.#next ??= this.#readChunk());
      if (position < chunk.start + chunk.bytes.length) return chunk;
    }
  }

  async #readChunk() {
    const start = this.#position;
    const length = Math.min(CHUNK_BYTES, this.#end - start);
    try {
      this.#source ??= this.#open(start, this.#end);
      const bytes = await this.#source.read(length);
      if (bytes?.length !== length) throw new Error("a range reader returned fewer bytes than were requested");
      const chunk = { start, bytes };
      this.#position += length;
      this.#keep(chunk);
      if (this.#position === this.#end) this.#stop();
      return chunk;
    } catch (error) {
      this.#stop();
      throw error;
    } finally {
      this.#next = undefined;
    }
  }

  #stop() {
    this.#onEnd();
    this.#source?.cancel();
    this.#source = undefined;
  }
}
