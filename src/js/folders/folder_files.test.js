import assert from "node:assert/strict";
import { test } from "node:test";
import { FolderCache, folderCache } from "./folder_files.js";
import { MemoryFolder } from "./memory_folder.test.js";

const NAME = "0123456789abcdef0123456789abcdef";
const MIB = 1 << 20;

/** A head as `src/cache/record.rs` writes it; only the module checks its checksums. */
function head(url, byteLength, generation = 7n) {
  const text = new TextEncoder().encode(`${url}\n${byteLength ?? ""}\n"etag"\n`);
  const bytes = new Uint8Array(36 + text.length);
  new DataView(bytes.buffer).setBigUint64(28, generation, true);
  bytes.set(text, 36);
  return bytes;
}

const filled = (length, value) => new Uint8Array(length).fill(value);
const key = (rest, name = NAME) => `weightstream.${name}.${rest}`;
const piece = (start, end, generation = 7) =>
  key([generation, start, end, 9].map((number) => number.toString(16)).join("."));

const pathOf = async (url) => url.replace("https://", "");
const URL_ = "https://h/models/m.gguf";

/** A folder with a cache, and a function that waits until the cache has done everything. */
function setUp(root = new MemoryFolder("models"), paths = pathOf) {
  const cache = new FolderCache(root, paths);
  const settled = async () => {
    for (const until = Date.now() + 2000; Date.now() < until; await new Promise((resolve) => setTimeout(resolve, 5))) {
      const [file] = await cache.list();
      if (file?.path !== undefined || cache.error !== undefined) return file;
    }
    throw new Error(`nothing was completed: ${root.paths()}`);
  };
  return { root, cache, settled };
}

/** Stores a file of two pieces. */
async function store(cache, values = [1, 2], generation = 7) {
  await cache.set(key("head"), head(URL_, 2 * MIB, BigInt(generation)));
  await cache.set(key("used"), new Uint8Array(8));
  await cache.set(piece(MIB, 2 * MIB, generation), filled(MIB, values[1]));
  await cache.set(piece(0, MIB, generation), filled(MIB, values[0]));
}

test("a complete file has its name, and nothing else is left of it but its record", async () => {
  const { root, cache, settled } = setUp();
  await store(cache);
  const file = await settled();
  assert.deepEqual([file.url, file.path, file.cachedBytes], [URL_, "h/models/m.gguf", 2 * MIB]);
  const bytes = root.bytesOf("h/models/m.gguf");
  assert.deepEqual([bytes.length, bytes[0], bytes[MIB]], [2 * MIB, 1, 2]);
  const own = [`.weightstream/${NAME}/head`, `.weightstream/${NAME}/used`, `.weightstream/${NAME}/whole.json`];
  assert.deepEqual(root.paths(), [...own, "h/models/m.gguf"]);
  assert.equal((await cache.get(piece(MIB, 2 * MIB)))[0], 2);
});

test("a part of a file is found by the next page, and completed", async () => {
  const { root, cache } = setUp();
  await cache.set(key("head"), head(URL_, 2 * MIB));
  await cache.set(piece(0, MIB), filled(MIB, 1));
  assert.equal((await cache.list())[0].path, undefined);
  assert.ok(root.paths().some((path) => path.endsWith(".part")), "parts are marked");
  const next = setUp(root);
  assert.deepEqual(await next.cache.keys(key("")), [key("head"), piece(0, MIB)]);
  assert.equal((await next.cache.get(piece(0, MIB)))[5], 1);
  await next.cache.set(piece(MIB, 2 * MIB), filled(MIB, 2));
  assert.equal((await next.settled()).path, "h/models/m.gguf");
});

test("what a page had not written when it was closed is missing", async () => {
  const { root, cache } = setUp();
  await cache.set(key("head"), head(URL_, 2 * MIB));
  await cache.set(piece(0, MIB), filled(MIB, 1));
  const next = setUp(root.copy()); // as after a crash
  assert.deepEqual(await next.cache.keys(key("")), [key("head")]);
  assert.equal(await next.cache.get(piece(0, MIB)), undefined);
});

test("a damaged segment is deleted, and no piece of it is used", async () => {
  const { root, cache } = setUp();
  await cache.set(key("head"), head(URL_, 2 * MIB));
  await cache.set(piece(0, MIB), filled(MIB, 1));
  await cache.list();
  const segment = root.paths().find((path) => path.endsWith(".part"));
  const bytes = root.bytesOf(segment);
  const damages = [
    bytes.slice(0, -1), bytes.slice(1), bytes.slice(-12), new TextEncoder().encode("x"),
    new Uint8Array([...bytes.slice(-12, -8), ...new TextEncoder().encode("WSPART01")]),
    new Uint8Array([0, 0, 0, 0, ...filled(4, 255), ...new TextEncoder().encode("WSPART01")]),
  ];
  for (const damage of damages) {
    root.put(segment, damage);
    const next = setUp(root);
    assert.deepEqual(await next.cache.keys(key("")), [key("head")]);
    assert.ok(!root.paths().includes(segment));
  }
});

test("a file of the user with the same name is neither replaced nor deleted, and the reason is reported", async () => {
  const { root, cache, settled } = setUp();
  root.put("h/models/m.gguf", filled(2 * MIB, 9));
  await store(cache);
  await settled();
  assert.match(cache.error, /another file "h\/models\/m\.gguf", which is not overwritten/);
  assert.equal((await cache.get(piece(0, MIB)))[0], 1, "the cache has the pieces");
  await cache.deleteFiles();
  assert.deepEqual(root.paths(), ["h/models/m.gguf"]);
  assert.equal(root.bytesOf("h/models/m.gguf")[0], 9);
});

test("a file of the user with the same content is adopted", async () => {
  const { root, cache, settled } = setUp();
  root.put("h/models/m.gguf", new Uint8Array([...filled(MIB, 1), ...filled(MIB, 2)]));
  await store(cache);
  assert.equal((await settled()).path, "h/models/m.gguf");
  assert.equal(cache.error, undefined);
  assert.ok(!root.paths().some((path) => path.endsWith(".part")));
  assert.equal((await cache.get(piece(0, MIB)))[0], 1);
  await cache.delete(key("head"));
  assert.deepEqual(root.paths(), ["h/models/m.gguf"], "it stays when the model is deleted");
});

test("a file that another program has changed is the user's", async () => {
  const { root, cache, settled } = setUp();
  await store(cache);
  await settled();
  root.put("h/models/m.gguf", filled(2 * MIB, 8));
  // The module finds another checksum, and deletes the piece.
  assert.equal((await cache.get(piece(0, MIB)))[0], 8);
  await cache.delete(piece(0, MIB));
  assert.deepEqual(await cache.keys(key("")), [key("head"), key("used")]);
  await cache.delete(key("head"));
  assert.deepEqual(root.paths(), ["h/models/m.gguf"]);
});

test("a file that was deleted or truncated is missing", async () => {
  for (const change of [(root) => root.put("h/models/m.gguf", filled(3, 1)), (root) => root.take("h/models/m.gguf")]) {
    const { root, cache, settled } = setUp();
    await store(cache);
    await settled();
    change(root);
    assert.equal(await cache.get(piece(0, MIB)), undefined);
    assert.deepEqual(await cache.keys(key("")), [key("head"), key("used")]);
  }
});

test("a new version replaces an unchanged file", async () => {
  const { root, cache, settled } = setUp();
  await store(cache);
  await settled();
  for (const old of await cache.keys(key(""))) await cache.delete(old);
  assert.deepEqual(root.paths(), []);
  await store(cache, [3, 4], 8);
  await settled();
  assert.equal(root.bytesOf("h/models/m.gguf")[0], 3);
});

test("a file whose copy was interrupted is completed later", async () => {
  const { root, cache } = setUp(undefined, async () => {
    throw new Error("no path");
  });
  await store(cache);
  await cache.list();
  root.put("h/models/m.gguf", filled(0, 0));
  root.put(`.weightstream/${NAME}/whole.json`, new TextEncoder().encode(JSON.stringify({
    path: ["h", "models", "m.gguf"], byteLength: 0, lastModified: 0, pieces: [],
  })));
  const next = setUp(root);
  assert.equal((await next.settled()).path, "h/models/m.gguf");
  assert.equal(next.cache.error, undefined);
});

test("a copy that fails leaves nothing behind, and the pieces stay", async () => {
  const { root, cache, settled } = setUp();
  root.failWrites = (path) => path.endsWith("m.gguf") && new DOMException("full", "QuotaExceededError");
  await store(cache);
  await settled();
  assert.match(cache.error, /the disk is full/);
  assert.ok(!root.paths().includes("h/models/m.gguf"));
  assert.equal((await cache.get(piece(0, MIB)))[0], 1);
});

test("a full disk evicts nothing of a folder, but of a bucket", async () => {
  for (const [paths, name] of [[pathOf, "LoadError"], [undefined, "QuotaExceededError"]]) {
    const cache = new FolderCache(Object.assign(new MemoryFolder("models"), {
      failWrites: () => new DOMException("full", "QuotaExceededError"),
    }), paths);
    await assert.rejects(cache.set(key("head"), head(URL_, 3)), { name });
    assert.deepEqual(await cache.keys(), [], "an empty file is left");
  }
});

test("a folder that may not be written is not used, and says what to do", async () => {
  const root = new MemoryFolder("models");
  const advice = /may not write to the folder "models"\. Call allowFolder\(\)/;
  for (const permission of ["prompt", "denied"]) {
    root.permission = permission;
    await assert.rejects(folderCache(root, pathOf), advice);
  }
  root.permission = "granted";
  const cache = await folderCache(root, pathOf);
  assert.equal(await folderCache(root, pathOf), cache);
  root.failWrites = () => new DOMException("revoked", "NotAllowedError");
  await assert.rejects(cache.set(key("head"), head(URL_, 3)), advice);
});

test("a folder that is deleted in the middle is an error of the next write", async () => {
  const { root, cache } = setUp();
  await cache.set(key("head"), head(URL_, 2 * MIB));
  root.isDeleted = true;
  assert.equal(await cache.get(key("head")), undefined);
  await assert.rejects(cache.set(piece(0, MIB), filled(MIB, 1)), /The folder "models" cannot be used as a cache/);
});

test("a file that another page replaces while it is read is read again", async () => {
  const { root, cache } = setUp();
  await cache.set(key("head"), head(URL_, 3));
  let replacements = 2;
  root.beforeRead = (path) => {
    if (path.endsWith("/head") && replacements-- > 0) root.put(path, head(URL_, 4));
  };
  assert.equal((await cache.list())[0].byteLength, 4);
});

test("a file that is deleted while it is completed leaves nothing behind", async () => {
  const { root, cache } = setUp();
  let begun = () => {};
  const isJoining = new Promise((resolve) => (begun = resolve));
  root.failWrites = (path) => void (path.endsWith("m.gguf") && begun());
  await store(cache);
  await Promise.all([cache.list(), isJoining]);
  await cache.delete(key("head"));
  assert.deepEqual(root.paths(), []);
  assert.equal(cache.error, undefined);
});

test("a head that another page has only begun to write is missing", async () => {
  const { root, cache } = setUp();
  root.put(`.weightstream/${NAME}/head`, filled(0, 0));
  assert.equal(await cache.get(key("head")), undefined);
});

test("locations of contents are kept, and deleted", async () => {
  const { root, cache } = setUp();
  const content = "weightstream.content.sha256:ab";
  await cache.set(content, filled(60, 1));
  assert.deepEqual(await cache.keys("weightstream.content."), [content]);
  await cache.list();
  const next = setUp(root);
  assert.deepEqual([...(await next.cache.get(content))], [...filled(60, 1)]);
  assert.deepEqual(await next.cache.keys(), [content]);
  await next.cache.delete(content);
  assert.deepEqual(await next.cache.keys(), []);
});

test("two caches of one folder complete a file together", async () => {
  const { root, cache } = setUp();
  const other = setUp(root);
  await cache.set(key("head"), head(URL_, 2 * MIB));
  await cache.set(piece(0, MIB), filled(MIB, 1));
  await other.cache.set(piece(MIB, 2 * MIB), filled(MIB, 2));
  await cache.list();
  assert.equal((await other.settled()).path, "h/models/m.gguf");
  assert.equal((await cache.get(piece(0, MIB)))[0], 1, "its segment is gone");
});
