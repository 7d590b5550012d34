// @ts-check
// One cached file in a folder: writes its pieces, and the complete file once it has all of them. All operations run one
// after the other, except for the copy of the complete file, which may take minutes.
import { bytesIn, folderAt, namesIn, remove, write } from "./handles.js";
import { pieceOf } from "./keys.js";
import { SegmentWriter, sliceOf } from "./segments.js";
import { HEAD, StoredPieces } from "./stored_pieces.js";

/** @import { Folder } from "./handles.js" */
/** @import { Description } from "./keys.js" */
/** @import { Run } from "./places.js" */

/** Length of a segment. A page that is closed loses the one that is being written. */
const SEGMENT_BYTES = 8 << 20;

/** A segment is closed after this time, even if it is short, and earlier if nothing is added to it. */
const MAX_OPEN_MS = 1_000;
const IDLE_MS = 400;

const USED = "used";

/**
 * What an entry needs of its cache.
 *
 * @typedef {object} Context
 * @property {Folder} root The folder of the user.
 * @property {((url: string) => Promise<string>) | undefined} pathOf Where the folder has the complete file of a URL.
 *   Without it, files stay in segments.
 * @property {(error: unknown) => void} report Gets errors of what no call waits for.
 * @property {(entry: Entry) => void} opened Gets an entry with a segment that is being written.
 */

export class Entry {
  name;
  #path;
  #context;
  #stored;
  /** @type {SegmentWriter | undefined} */
  #writer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();
  /** Whether the complete file may be written: it is not while that runs, or after it has failed. */
  #mayJoin = true;
  /** Ends the copy of the complete file. */
  #stop = new AbortController();
  /** @type {Promise<void>} */
  #joining = Promise.resolve();

  /**
   * @param {string} name
   * @param {readonly string[]} parent The folder of all entries.
   * @param {Context} context
   */
  constructor(name, parent, context) {
    this.name = name;
    this.#path = [...parent, name];
    this.#context = context;
    this.#stored = new StoredPieces(context.root, this.#path);
  }

  /**
   * @param {string} rest
   * @returns {Promise<Uint8Array<ArrayBuffer> | undefined>}
   */
  get(rest) {
    return this.#inTurn(async () => {
      if (!pieceOf(rest)) return bytesIn(await this.#stored.folder(), rest);
      if (this.#writer && this.#stored.places.get(rest)?.file === this.#writer.name) await this.#close();
      const bytes = await this.#stored.read(rest);
      if (bytes) return bytes;
      await this.#refresh(); // another page may have joined the segments
      return this.#stored.read(rest);
    });
  }

  /**
   * @param {string} rest
   * @param {Uint8Array<ArrayBuffer>} bytes
   */
  set(rest, bytes) {
    return this.#inTurn(async () => {
      if (!pieceOf(rest)) return write(await this.#createdFolder(), rest, bytes);
      const writer = (this.#writer ??= new SegmentWriter(await this.#createdFolder()));
      this.#stored.unfinished = writer.name;
      this.#context.opened(this);
      try {
        const at = await writer.add(rest, bytes);
        this.#stored.places.set(rest, { file: writer.name, at, byteLength: bytes.length });
      } catch (error) {
        await this.#drop();
        throw error;
      }
      clearTimeout(this.#timer);
      if (writer.byteLength >= SEGMENT_BYTES || Date.now() - writer.startedMs > MAX_OPEN_MS) return this.#close();
      this.#timer = setTimeout(() => this.flush().catch(() => {}), IDLE_MS); // its pieces are missing then
    });
  }

  /** @param {string} rest */
  async delete(rest) {
    if (rest === HEAD) {
      this.#stop.abort();
      await this.#joining; // no file can be deleted while it is written
    }
    return this.#inTurn(async () => {
      if (rest !== HEAD) return this.#stored.discard(rest);
      await this.#drop();
      await this.#stored.deleteAll();
      this.#mayJoin = true;
    });
  }

  /** The rests of all keys. The head is first, because everything is deleted with it. */
  rests() {
    return this.#inTurn(async () => {
      await this.#refresh();
      const names = await namesIn(await this.#stored.folder());
      return [...[HEAD, USED].filter((name) => names.includes(name)), ...this.#stored.places.keys()];
    });
  }

  /** Writes what is not on the disk yet. */
  flush() {
    return this.#inTurn(() => this.#close());
  }

  /** What the folder has of the file, and where it is if it is complete. Undefined if there is none. */
  info() {
    return this.#inTurn(async () => {
      await this.#close();
      await this.#refresh();
      const { places, record } = this.#stored;
      const described = await this.#stored.description();
      if (!described) return undefined;
      const used = await bytesIn(await this.#stored.folder(), USED);
      const usedMs = used?.length === 8 ? new DataView(used.buffer).getBigUint64(0, true) : 0n;
      const { url, byteLength } = described;
      const lastUsed = new Date(Number(usedMs));
      return { url, path: record?.path.join("/"), cachedBytes: places.byteLength, byteLength, lastUsed };
    });
  }

  #createdFolder() {
    return folderAt(this.#context.root, this.#path, { create: true });
  }

  async #refresh() {
    await this.#stored.refresh();
    await this.#joinIfComplete();
  }

  async #close() {
    const writer = this.#writer;
    if (!writer) return;
    clearTimeout(this.#timer);
    try {
      await writer.close();
    } catch (error) {
      await this.#drop();
      throw error;
    }
    this.#writer = this.#stored.unfinished = undefined;
    this.#stored.add(writer.name);
    await this.#joinIfComplete();
  }

  /** Gives up the segment that is being written. */
  async #drop() {
    const writer = this.#writer;
    if (!writer) return;
    clearTimeout(this.#timer);
    this.#writer = this.#stored.unfinished = undefined;
    this.#stored.forget(writer.name);
    await writer.abort().catch(() => {}); // it may have failed
    await this.#stored.folder().then((folder) => remove(folder, writer.name)).catch(() => {}); // empty
  }

  /** Copies the segments to the complete file, unless something does so already. */
  async #joinIfComplete() {
    const { pathOf, report } = this.#context;
    if (!pathOf || !this.#mayJoin || this.#stored.record) return;
    const [folder, described] = [await this.#stored.folder(), await this.#stored.description()];
    const run = described && this.#stored.places.completeRun(described, this.#stored.unfinished);
    if (!folder || !run || !this.#mayJoin) return;
    this.#mayJoin = false;
    this.#stop = new AbortController();
    const join = async () => this.#join(folder, described, (await pathOf(described.url)).split("/"), run);
    const joined = withLock(`weightstream folder ${this.name}`, join).then(() => (this.#mayJoin = true), report);
    this.#joining = joined.then(() => {});
  }

  /**
   * @param {Folder} folder
   * @param {Description} described
   * @param {string[]} path
   * @param {Run} run
   */
  async #join(folder, described, path, run) {
    const { generation } = described;
    const pieces = this.#stored.places.keysOf(generation);
    const parts = run.map(({ file, start, end }) =>
      ({ bytes: () => sliceOf(folder, file, start, end), byteLength: end - start }));
    const { signal } = this.#stop;
    const isWanted = async () => !signal.aborted && (await this.#stored.description())?.generation === generation;
    if (!(await this.#stored.whole(folder).join(path, parts, pieces, isWanted))) return;
    const use = async () => {
      await this.#stored.readWhole();
      if (this.#stored.record) await this.#stored.removeUnused();
    };
    this.#inTurn(use).catch(this.#context.report);
  }

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  #inTurn(work) {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {}); // the caller gets the error
    return result;
  }
}

/**
 * Does nothing if another page does the same.
 *
 * @param {string} name
 * @param {() => Promise<void>} work
 */
async function withLock(name, work) {
  const locks = globalThis.navigator?.locks;
  await (locks ? locks.request(name, { ifAvailable: true }, async (lock) => lock && work()) : work());
}
