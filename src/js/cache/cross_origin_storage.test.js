import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { afterEach, test } from "node:test";
import { mockOf } from "../../../tests/cross_origin/mock.js";
import { CrossOriginStorage } from "./cross_origin_storage.js";

const METHODS = ["getFileHandle", "requestFileHandle", "requestFileHandles"];
const bytes = new Uint8Array(1000).map((_, at) => at);

/** Bytes that no other test stores, and their SHA-256. */
let count = 0;
function content() {
  const own = Uint8Array.from([...bytes, ++count]);
  return [createHash("sha256").update(own).digest("hex"), own];
}

/** Not all versions of Node.js have a `navigator`. */
const install = (crossOriginStorage) =>
  Object.defineProperty(globalThis, "navigator", { value: { crossOriginStorage }, configurable: true });

afterEach(() => install(undefined));

async function store(storage, sha256, stored) {
  if (!(await storage.call("begin", sha256))) return false;
  const isWritten = await storage.call("write", sha256, stored);
  await storage.call("end", sha256, isWritten);
  return isWritten;
}

for (const method of METHODS) {
  test(`a file that was stored by ${method}() is found`, async () => {
    const [sha256, own] = content();
    install(mockOf(method, new Map()));
    const storage = new CrossOriginStorage(true);
    assert.equal(await storage.call("find", sha256), undefined);
    assert.equal(await store(storage, sha256, own), true);
    const found = await new CrossOriginStorage("read").call("find", sha256);
    assert.deepEqual(new Uint8Array(await found.arrayBuffer()), own);
    assert.deepEqual(storage.stats, { filesFound: 0, filesStored: 1, filesWithoutDigest: 0, error: undefined });
  });
}

test("a file that is stored already is not stored again", async () => {
  const [sha256, own] = content();
  const log = [];
  install(mockOf("getFileHandle", new Map([[sha256, new Blob([own])]]), { log }));
  const storage = new CrossOriginStorage(true);
  assert.equal(await store(storage, sha256, own), false);
  assert.deepEqual(log, []);
  assert.equal(storage.stats.error, undefined);
});

test("without Cross-Origin Storage, nothing is found and stored, and the statistics say so", async () => {
  const [sha256, own] = content();
  const storage = new CrossOriginStorage(true);
  assert.equal(await storage.call("find", sha256), undefined);
  assert.equal(await store(storage, sha256, own), false);
  assert.match(storage.stats.error, /does not have it/);
  assert.equal(storage.stats.filesStored, 0);
});

for (const [failing, name] of Object.entries({ handle: "NotAllowedError", getFile: "NotReadableError" })) {
  test(`a ${name} is a miss, with the reason in the statistics`, async () => {
    const [sha256, own] = content();
    install(mockOf("getFileHandle", new Map([[sha256, new Blob([own])]]), { fails: { [failing]: name } }));
    const storage = new CrossOriginStorage("read");
    assert.equal(await storage.call("find", sha256), undefined);
    assert.match(storage.stats.error, new RegExp(name));
  });
}

for (const [failing, name] of Object.entries({ write: "QuotaExceededError", close: "DataError" })) {
  test(`after a ${name}, the file is not stored, and a later load tries again`, async () => {
    const [sha256, own] = content();
    const [files, log] = [new Map(), []];
    install(mockOf("getFileHandle", files, { fails: { [failing]: name }, log }));
    const storage = new CrossOriginStorage(true);
    await store(storage, sha256, own);
    assert.equal(files.size, 0);
    assert.equal(log.at(-1), failing === "write" ? "abort" : "close");
    assert.match(storage.stats.error, new RegExp(name));
    install(mockOf("getFileHandle", files));
    assert.equal(await store(new CrossOriginStorage(true), sha256, own), true);
    assert.equal(files.size, 1);
  });
}

test("an incomplete file is aborted, and files are stored one after another", async () => {
  const [[one, own], [other, others]] = [content(), content()];
  const [files, log] = [new Map(), []];
  install(mockOf("getFileHandle", files, { log }));
  const storage = new CrossOriginStorage(true);
  assert.equal(await storage.call("begin", one), true);
  const storing = store(storage, other, others);
  await storage.call("write", one, own.subarray(0, 9));
  await storage.call("end", one, false);
  await storing;
  await storage.settled();
  assert.deepEqual(log, ["create", 9, "abort", "create", others.length, "close"]);
  assert.deepEqual([...files.keys()], [other]);
});

test("what a worker was storing when it ended is aborted", async () => {
  const [sha256] = content();
  const log = [];
  install(mockOf("getFileHandle", new Map(), { log }));
  const storage = new CrossOriginStorage(true);
  const port = storage.port();
  const answer = new Promise((resolve) => (port.onmessage = ({ data }) => resolve(data)));
  port.postMessage([3, "begin", sha256]);
  assert.deepEqual(await answer, [3, true]);
  port.close();
  storage.abandon();
  await storage.settled();
  assert.deepEqual(log, ["create", "abort"]);
});
