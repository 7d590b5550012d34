import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { checkCache, folderCache } from "./folder_cache.js";

beforeEach(async () => {
  process.env.WEIGHTSTREAM_CACHE = await mkdtemp(join(tmpdir(), "folder-cache-"));
});
afterEach(async () => {
  await rm(process.env.WEIGHTSTREAM_CACHE, { recursive: true, force: true });
  delete process.env.WEIGHTSTREAM_CACHE;
  delete process.env.WEIGHTSTREAM_CACHE_SIZE;
});

const bytes = (...values) => new Uint8Array(values);

test("a value is what was stored, and undefined before and after", async () => {
  const cache = folderCache();
  assert.equal(await cache.get("a"), undefined);
  await cache.set("a", bytes(1, 2));
  assert.deepEqual([...(await cache.get("a"))], [1, 2]);
  assert.deepEqual([...(await cache.keys())], ["a"]);
  await cache.delete("a");
  await cache.delete("a");
  assert.equal(await cache.get("a"), undefined);
});

test("a file that is being written is no key, and none is left behind", async () => {
  const cache = folderCache();
  await Promise.all([cache.set("a", bytes(1)), cache.set("a", bytes(2)), cache.keys()]);
  assert.deepEqual(await readdir(process.env.WEIGHTSTREAM_CACHE), ["a"]);
});

test("a file that a process has not finished is no key", async () => {
  const path = join(process.env.WEIGHTSTREAM_CACHE, "unfinished-1");
  await writeFile(path, "a");
  const old = new Date(Date.now() - 2 * 24 * 60 * 60 * 1000);
  await utimes(path, old, old);
  assert.deepEqual([...(await folderCache().keys())], []);
});

test("an invalid size is refused", () => {
  for (const size of ["20GB", "1.5 GiB", "100", "20gb"]) {
    process.env.WEIGHTSTREAM_CACHE_SIZE = size;
    checkCache();
  }
  for (const size of ["a lot", "20 XB", "-1GB", "GB"]) {
    process.env.WEIGHTSTREAM_CACHE_SIZE = size;
    assert.throws(checkCache, { code: "INVALID_ARGUMENT", message: /such as 20GB/ }, size);
  }
});
