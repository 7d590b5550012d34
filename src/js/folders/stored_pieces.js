// @ts-check
// What a folder has of one file on the disk: its pieces in segments, or the complete file. Other pages may change it.
import { bytesIn, fileIn, folderAt, ifGone, ifPresent, namesIn, remove } from "./handles.js";
import { describedBy, pieceOf } from "./keys.js";
import { Places } from "./places.js";
import { indexOf, isSegment } from "./segments.js";
import { WholeFile } from "./whole.js";

/** @import { Folder } from "./handles.js" */
/** @import { WholeRecord } from "./whole.js" */

/** An empty segment of this age belongs to a page that was closed. */
const MAX_UNFINISHED_MS = 24 * 60 * 60 * 1000;

/** The key of a description, without which the pieces are nothing. */
export const HEAD = "head";

/** The complete file, as a place of pieces. No segment has this name. */
const WHOLE = "";

export class StoredPieces {
  places = new Places();
  /** @type {WholeRecord | undefined} That of the complete file. */
  record;
  /** @type {string | undefined} A segment that is being written, and cannot be read. */
  unfinished;
  #root;
  #path;
  /** @type {Set<string>} The segments whose index was read. */
  #segments = new Set();
  /** @type {Map<string, File>} Files that were read: to open one takes as long as to read 1 MiB. */
  #files = new Map();

  /**
   * @param {Folder} root The folder of the user.
   * @param {readonly string[]} path The folder of the segments in it.
   */
  constructor(root, path) {
    this.#root = root;
    this.#path = path;
  }

  /** The folder of the segments, if it exists. */
  folder() {
    return ifPresent(folderAt(this.#root, this.#path));
  }

  async description() {
    return describedBy(await bytesIn(await this.folder(), HEAD));
  }

  /**
   * The complete file of the folder of the segments.
   *
   * @param {Folder} folder
   */
  whole(folder) {
    return new WholeFile(this.#root, folder);
  }

  /**
   * The bytes of a piece. Undefined if they are gone.
   *
   * @param {string} rest
   */
  async read(rest) {
    return this.#bytesOf(rest).catch(ifGone);
  }

  /** @param {string} rest */
  async #bytesOf(rest) {
    const place = this.places.get(rest);
    if (!place) return undefined;
    const { file: name, at, byteLength } = place;
    const file = this.#files.get(name) ?? (await this.#open(name));
    if (!file) return undefined;
    this.#files.set(name, file);
    return new Uint8Array(await file.slice(at, at + byteLength).arrayBuffer());
  }

  /** @param {string} name */
  async #open(name) {
    const folder = await this.folder();
    if (name !== WHOLE || !folder) return fileIn(folder, name);
    return this.record && this.whole(folder).file(this.record);
  }

  /** Reads what other pages have written since the last time. */
  async refresh() {
    const folder = await this.folder();
    const segments = (await namesIn(folder)).filter(isSegment).sort();
    for (const name of this.#segments) if (!segments.includes(name)) this.forget(name);
    for (const name of segments) {
      if (folder && !this.#segments.has(name) && name !== this.unfinished) await this.#readSegment(folder, name);
    }
    await this.readWhole();
  }

  /**
   * @param {Folder} folder
   * @param {string} name
   */
  async #readSegment(folder, name) {
    const file = await fileIn(folder, name);
    const found = file && (await indexOf(file).catch(ifGone));
    if (found) {
      this.add(name);
      for (const { rest, ...place } of found) this.places.set(rest, { file: name, ...place });
    } else if (file && (file.size > 0 || Date.now() - file.lastModified > MAX_UNFINISHED_MS)) {
      await remove(folder, name); // damaged, or of a page that was closed
    }
  }

  /** Reads which pieces the complete file has. If another program has changed its length, it is the user's. */
  async readWhole() {
    this.forget(WHOLE);
    this.record = undefined;
    const folder = await this.folder();
    const whole = folder && this.whole(folder);
    const record = await whole?.record();
    if (!whole || !record || record.byteLength === 0) return;
    if (!(await whole.file(record))) return whole.forget();
    this.record = record;
    for (const rest of record.pieces) {
      const piece = pieceOf(rest);
      if (piece) this.places.set(rest, { file: WHOLE, at: piece.start, byteLength: piece.end - piece.start });
    }
  }

  /**
   * Adds a segment whose pieces have places.
   *
   * @param {string} name
   */
  add(name) {
    this.#segments.add(name);
  }

  /**
   * Forgets a segment.
   *
   * @param {string} name
   */
  forget(name) {
    this.#segments.delete(name);
    this.#files.delete(name);
    this.places.forget(name);
  }

  /**
   * Forgets a damaged piece. If it is one of the complete file, another program has changed that: it is the user's.
   *
   * @param {string} rest
   */
  async discard(rest) {
    const place = this.places.get(rest);
    this.places.delete(rest);
    const folder = await this.folder();
    if (!place || !folder) return;
    if (place.file !== WHOLE) return this.#removeUnused(folder, place.file);
    await this.whole(folder).forget();
    await this.readWhole();
  }

  /** Deletes the segments of which no piece is used. */
  async removeUnused() {
    const folder = await this.folder();
    for (const name of [...this.#segments]) if (folder) await this.#removeUnused(folder, name);
  }

  /**
   * @param {Folder} folder
   * @param {string} name
   */
  async #removeUnused(folder, name) {
    if (name === this.unfinished || this.places.use(name)) return;
    this.forget(name);
    await remove(folder, name);
  }

  /** Deletes everything of the file, except what another program has changed. */
  async deleteAll() {
    const folder = await this.folder();
    if (folder) await this.whole(folder).delete();
    this.places.forget();
    this.#segments.clear();
    this.#files.clear();
    this.record = undefined;
    const parent = await ifPresent(folderAt(this.#root, this.#path.slice(0, -1)));
    await remove(parent, this.#path.at(-1) ?? "");
  }
}
