// @ts-check
// One cached file in a folder: its pieces in segments, or the complete file. All operations run one after the other,
// except for the copy of the complete file, which may take minutes.
import { bytesIn, fileIn, folderAt, ifGone, ifPresent, namesIn, remove, write } from "./handles.js";
import { describedBy, pieceOf } from "./keys.js";
import { Places } from "./places.js";
import { SegmentWriter, indexOf, isSegment, sliceOf } from "./segments.js";
import { WholeFile } from "./whole.js";

/** @import { Folder } from "./handles.js" */
/** @import { Description } from "./keys.js" */
/** @import { Run } from "./places.js" */
/** @import { WholeRecord } from "./whole.js" */

/** Length of a segment. A page that is closed loses the one that is being written. */
const SEGMENT_BYTES = 8 << 20;

/** A segment is closed after this time, even if it is short, and earlier if nothing is added to it. */
const MAX_OPEN_MS = 1_000;
const IDLE_MS = 400;

/** An empty segment of this age belongs to a page that was closed. */
const MAX_UNFINISHED_MS = 24 * 60 * 60 * 1000;

const HEAD = "head";
/** The complete file, as a place of pieces. No segment has this name. */
const WHOLE = "";

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
  #places = new Places();
  /** @type {Set<string>} The segments whose index was read. */
  #segments = new Set();
  /** @type {WholeRecord | undefined} That of the complete file. */
  #record;
  /** @type {SegmentWriter | undefined} */
  #writer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();
  /** Whether the complete file may be written: it is not while that runs, or after it has failed. */
  #mayJoin = true;

  /**
   * @param {string} name
   * @param {readonly string[]} parent The folder of all entries.
   * @param {Context} context
   */
  constructor(name, parent, context) {
    this.name = name;
    this.#path = [...parent, name];
    this.#context = context;
  }

  /**
   * @param {string} rest
   * @returns {Promise<Uint8Array<ArrayBuffer> | undefined>}
   */
  get(rest) {
    return this.#inTurn(async () => {
      if (!pieceOf(rest)) return bytesIn(await this.#folder(), rest);
      const bytes = await this.#read(rest).catch(ifGone);
      if (bytes) return bytes;
      await this.#refresh(); // another page may have joined the segments
      return this.#read(rest).catch(ifGone);
    });
  }

  /**
   * @param {string} rest
   * @param {Uint8Array<ArrayBuffer>} bytes
   */
  set(rest, bytes) {
    return this.#inTurn(async () => {
      if (!pieceOf(rest)) return write(await this.#createdFolder(), rest, bytes);
      this.#writer ??= new SegmentWriter(await this.#createdFolder());
      const { name, startedMs } = this.#writer;
      this.#context.opened(this);
      try {
        const at = await this.#writer.add(rest, bytes);
        this.#places.set(rest, { file: name, at, byteLength: bytes.length });
      } catch (error) {
        await this.#drop();
        throw error;
      }
      const isFull = this.#writer.byteLength >= SEGMENT_BYTES;
      if (isFull || Date.now() - startedMs > MAX_OPEN_MS) return this.#close();
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.flush().catch(() => {}), IDLE_MS); // its pieces are missing then
    });
  }

  /** @param {string} rest */
  delete(rest) {
    return this.#inTurn(async () => {
      if (rest === HEAD) return this.#deleteAll();
      const place = this.#places.get(rest);
      if (!place) return;
      this.#places.delete(rest);
      // Another program has changed the file, which is the user's from now on.
      if (place.file === WHOLE) await this.#forgetWhole(await this.#folder());
      else await this.#removeUnused(place.file);
    });
  }

  /** The rests of all keys, the head first: without it, the others are nothing. */
  rests() {
    return this.#inTurn(async () => {
      await this.#refresh();
      const names = await namesIn(await this.#folder());
      return [...[HEAD, "used"].filter((name) => names.includes(name)), ...this.#places.keys()];
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
      const folder = await this.#folder();
      const described = describedBy(await bytesIn(folder, HEAD));
      if (!described) return undefined;
      const used = await bytesIn(folder, "used");
      const usedMs = used?.length === 8 ? new DataView(used.buffer).getBigUint64(0, true) : 0n;
      const { url, byteLength } = described;
      const { byteLength: cachedBytes } = this.#places;
      return { url, path: this.#record?.path.join("/"), cachedBytes, byteLength, lastUsed: new Date(Number(usedMs)) };
    });
  }

  async #folder() {
    return ifPresent(folderAt(this.#context.root, this.#path));
  }

  #createdFolder() {
    return folderAt(this.#context.root, this.#path, { create: true });
  }

  /** @param {string} rest */
  async #read(rest) {
    const place = this.#places.get(rest);
    if (!place) return undefined;
    const { file, at, byteLength } = place;
    if (file === this.#writer?.name) await this.#close();
    const folder = await this.#folder();
    if (!folder) return undefined;
    const blob = file === WHOLE
      ? this.#record && (await new WholeFile(this.#context.root, folder).file(this.#record))?.slice(at, at + byteLength)
      : await sliceOf(folder, file, at, at + byteLength);
    return blob && new Uint8Array(await blob.arrayBuffer());
  }

  /** Reads what other pages have written since the last time. */
  async #refresh() {
    const folder = await this.#folder();
    const names = await namesIn(folder);
    const segments = names.filter(isSegment).sort();
    for (const name of this.#segments) if (!segments.includes(name)) this.#forgetSegment(name);
    for (const name of segments) {
      if (folder && !this.#segments.has(name) && name !== this.#writer?.name) await this.#readSegment(folder, name);
    }
    await this.#readWhole(folder);
    this.#joinIfComplete(folder, describedBy(await bytesIn(folder, HEAD)));
  }

  /**
   * @param {Folder} folder
   * @param {string} name
   */
  async #readSegment(folder, name) {
    const file = await fileIn(folder, name);
    const found = file && (await indexOf(file).catch(ifGone));
    if (found) {
      this.#segments.add(name);
      for (const { rest, ...place } of found) this.#places.set(rest, { file: name, ...place });
    } else if (file && (file.size > 0 || Date.now() - file.lastModified > MAX_UNFINISHED_MS)) {
      await remove(folder, name); // damaged, or of a page that was closed
    }
  }

  /** @param {Folder | undefined} folder */
  async #readWhole(folder) {
    const whole = folder && new WholeFile(this.#context.root, folder);
    const record = await whole?.record();
    const isUsable = record !== undefined && (await whole?.file(record)) !== undefined;
    if (record && record.byteLength > 0 && !isUsable) return this.#forgetWhole(folder);
    this.#places.forget(WHOLE);
    this.#record = isUsable ? record : undefined;
    for (const rest of this.#record?.pieces ?? []) {
      const piece = pieceOf(rest);
      if (piece) this.#places.set(rest, { file: WHOLE, at: piece.start, byteLength: piece.end - piece.start });
    }
  }

  /** @param {Folder | undefined} folder */
  async #forgetWhole(folder) {
    this.#places.forget(WHOLE);
    this.#record = undefined;
    if (folder) await new WholeFile(this.#context.root, folder).forget();
  }

  /** @param {string} name */
  #forgetSegment(name) {
    this.#segments.delete(name);
    this.#places.forget(name);
  }

  /**
   * Deletes a segment of which no piece is used.
   *
   * @param {string} name
   */
  async #removeUnused(name) {
    if (name === this.#writer?.name || this.#places.use(name)) return;
    this.#segments.delete(name);
    await remove(await this.#folder(), name);
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
    this.#writer = undefined;
    this.#segments.add(writer.name);
    const folder = await this.#folder();
    this.#joinIfComplete(folder, describedBy(await bytesIn(folder, HEAD)));
  }

  /** Gives up the segment that is being written. */
  async #drop() {
    const writer = this.#writer;
    if (!writer) return;
    clearTimeout(this.#timer);
    this.#writer = undefined;
    this.#forgetSegment(writer.name);
    await writer.abort().catch(() => {}); // it may have failed
    await this.#folder().then((folder) => remove(folder, writer.name)).catch(() => {}); // empty
  }

  async #deleteAll() {
    await this.#drop();
    const folder = await this.#folder();
    if (folder) await new WholeFile(this.#context.root, folder).delete();
    this.#places.forget();
    this.#segments.clear();
    this.#record = undefined;
    await remove(await ifPresent(folderAt(this.#context.root, this.#path.slice(0, -1))), this.name);
  }

  /**
   * Copies the segments to the complete file, unless something does so already.
   *
   * @param {Folder | undefined} folder
   * @param {Description | undefined} described
   */
  #joinIfComplete(folder, described) {
    const { pathOf, report } = this.#context;
    const run = described && this.#places.completeRun(described, this.#writer?.name);
    if (!folder || !pathOf || !run || this.#record || !this.#mayJoin) return;
    this.#mayJoin = false;
    const join = async () => this.#join(folder, described, (await pathOf(described.url)).split("/"), run);
    withLock(`weightstream folder ${this.name}`, join).then(() => (this.#mayJoin = true), report);
  }

  /**
   * @param {Folder} folder
   * @param {Description} described
   * @param {string[]} path
   * @param {Run} run
   */
  async #join(folder, described, path, run) {
    const whole = new WholeFile(this.#context.root, folder);
    const pieces = this.#places.keysOf(described.generation);
    const parts = run.map(({ file, start, end }) =>
      ({ bytes: () => sliceOf(folder, file, start, end), byteLength: end - start }));
    const isWanted = async () => describedBy(await bytesIn(folder, HEAD))?.generation === described.generation;
    const record = await whole.join(path, parts, pieces, isWanted);
    if (!record) return;
    await this.#inTurn(async () => {
      await this.#readWhole(folder);
      if (!this.#record) return; // deleted since
      for (const name of (await namesIn(folder)).filter(isSegment)) {
        if (this.#segments.has(name)) await this.#removeUnused(name);
      }
    });
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
