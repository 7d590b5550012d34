// @ts-check
// Files that are read one after the other, of which the next ones are opened ahead.

/** @import { RemoteFile } from "../../weightstream.js" */

/** @typedef {{ url: string, open(signal: AbortSignal): Promise<RemoteFile> }} Shard */

/** How many files are opened ahead. TensorFlow.js splits weights into files of 4 MiB, each a few short requests. */
const AHEAD = 3;

/** Files up to this size are read ahead as a whole. */
const MAX_AHEAD_BYTES = 8 * 1024 * 1024;

/** Reads files in their order. */
export class ShardQueue {
  #shards;
  #signal;
  #position = 0;
  /** @type {Promise<{ file: RemoteFile, bytes?: Uint8Array<ArrayBuffer> }>[]} Files that are opened ahead. */
  #opening = [];
  /** @type {Set<RemoteFile>} */
  #open = new Set();
  #isClosed = false;

  /**
   * @param {Shard[]} shards
   * @param {AbortSignal} signal
   */
  constructor(shards, signal) {
    this.#shards = shards;
    this.#signal = signal;
  }

  /** The next file, in pieces. */
  async *next() {
    while (this.#opening.length <= AHEAD && this.#position < this.#shards.length) {
      const opening = this.#openShard(this.#shards[this.#position++]);
      opening.catch(() => {}); // the error is thrown when the file is read
      this.#opening.push(opening);
    }
    const opened = await this.#opening.shift();
    if (!opened) return;
    const { file, bytes } = opened;
    if (bytes) {
      yield bytes;
      return;
    }
    const reader = file.stream({ signal: this.#signal }).getReader();
    for (let next; !(next = await reader.read()).done;) yield next.value;
    this.#close(file);
  }

  close() {
    this.#isClosed = true;
    for (const file of this.#open) this.#close(file);
  }

  /** @param {Shard} shard */
  async #openShard(shard) {
    const file = await shard.open(this.#signal);
    this.#open.add(file);
    if (this.#isClosed) this.#close(file);
    if (file.byteLength === undefined || file.byteLength > MAX_AHEAD_BYTES) return { file };
    const bytes = await file.bytes(0, undefined, { signal: this.#signal });
    this.#close(file);
    return { file, bytes };
  }

  /** @param {RemoteFile} file */
  #close(file) {
    this.#open.delete(file);
    file.close();
  }
}
