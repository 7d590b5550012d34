// A folder in memory with the methods of a FileSystemDirectoryHandle, which Node.js does not have.
import assert from "node:assert/strict";
import { test } from "node:test";

const missing = () => new DOMException("it does not exist", "NotFoundError");
const mismatch = () => new DOMException("it is of another kind", "TypeMismatchError");

let now = 1_000;

export class MemoryFolder {
  kind = "directory";
  /** The state of the permission, of the outermost folder. */
  permission = "granted";
  isDeleted = false;
  /** Returns the error of a write to a path, if it fails. */
  failWrites = () => undefined;
  /** Folders, and the bytes and time of change of files. */
  entries = new Map();

  constructor(name, root, path = "") {
    this.name = name;
    this.root = root ?? this;
    this.path = path;
  }

  async queryPermission() {
    return this.permission;
  }

  async getDirectoryHandle(name, { create = false } = {}) {
    this.#check();
    if (!this.entries.has(name) && create) {
      this.entries.set(name, new MemoryFolder(name, this.root, `${this.path}${name}/`));
    }
    const found = this.entries.get(name);
    if (!found) throw missing();
    if (!(found instanceof MemoryFolder)) throw mismatch();
    return found;
  }

  async getFileHandle(name, { create = false } = {}) {
    this.#check();
    if (!this.entries.has(name) && create) this.#write(name, new Uint8Array());
    const found = this.entries.get(name);
    if (!found) throw missing();
    if (found instanceof MemoryFolder) throw mismatch();
    return { kind: "file", name, getFile: () => this.#file(name), createWritable: async () => this.#writable(name) };
  }

  async removeEntry(name, { recursive = false } = {}) {
    this.#check();
    const found = this.entries.get(name);
    if (!found) throw missing();
    if (found.entries?.size > 0 && !recursive) throw new DOMException("not empty", "InvalidModificationError");
    this.entries.delete(name);
  }

  async *keys() {
    this.#check();
    yield* [...this.entries.keys()];
  }

  /** All files below this folder. */
  paths() {
    const below = ([name, entry]) => (entry instanceof MemoryFolder ? entry.paths() : [this.path + name]);
    return [...this.entries].flatMap(below).sort();
  }

  /** Puts a file at a path, as another program does. */
  put(path, bytes) {
    const [name, ...rest] = path.split("/");
    if (rest.length === 0) return this.#write(name, bytes);
    const folder = this.entries.get(name) ?? new MemoryFolder(name, this.root, `${this.path}${name}/`);
    this.entries.set(name, folder);
    folder.put(rest.join("/"), bytes);
  }

  bytesOf(path) {
    return this.#at(path).bytes;
  }

  take(path) {
    const names = path.split("/");
    const folder = names.length === 1 ? this : this.#at(names.slice(0, -1).join("/"));
    folder.entries.delete(names.at(-1));
  }

  /** A folder with the files that this one has now. */
  copy() {
    const copy = new MemoryFolder(this.name);
    for (const path of this.paths()) copy.put(path, this.bytesOf(path));
    return copy;
  }

  #at(path) {
    return path.split("/").reduce((folder, name) => folder.entries.get(name), this);
  }

  #check() {
    if (this.root.isDeleted) throw missing();
  }

  #write(name, bytes) {
    this.entries.set(name, { bytes, lastModified: now++ });
  }

  async #file(name) {
    const found = this.entries.get(name);
    if (!found) throw missing();
    return this.#snapshot(name, found);
  }

  /** Of a file that is replaced or deleted, browsers read nothing. */
  #snapshot(name, found) {
    const file = new File([found.bytes], name, { lastModified: found.lastModified });
    const { arrayBuffer } = file;
    this.root.beforeRead?.(this.path + name);
    file.arrayBuffer = async () => {
      if (this.entries.get(name) !== found) throw missing();
      return arrayBuffer.call(file);
    };
    return file;
  }

  #writable(name) {
    const chunks = [];
    const fail = () => {
      const error = this.root.failWrites(this.path + name);
      if (error) throw error;
      this.#check();
    };
    return {
      write: async (chunk) => {
        fail();
        chunks.push(new Uint8Array(await new Blob([chunk]).arrayBuffer()));
      },
      close: async () => {
        fail();
        this.#write(name, new Uint8Array(await new Blob(chunks).arrayBuffer()));
      },
      abort: async () => {},
    };
  }
}

test("a file has its new content once it is closed", async () => {
  const folder = new MemoryFolder("a");
  const handle = await folder.getFileHandle("b", { create: true });
  const writable = await handle.createWritable();
  await writable.write(new Uint8Array([1, 2]));
  assert.equal((await handle.getFile()).size, 0);
  await writable.close();
  assert.equal((await handle.getFile()).size, 2);
});
