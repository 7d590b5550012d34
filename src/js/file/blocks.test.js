import assert from "node:assert/strict";
import { test } from "node:test";
import { BlockCache } from "./blocks.js";

const BLOCK = 64 * 1024;
const MIB = 1024 * 1024;

test("reads return the bytes of their range", async () => {
  const { cache } = file(5 * BLOCK + 100);
  for (const [start, end] of [[0, 10], [BLOCK - 5, BLOCK + 5], [5 * BLOCK, 5 * BLOCK + 100], [7, 7]]) {
    assert.deepEqual(await read(cache, start, end), expected(start, end), `${start}-${end}`);
  }
});

test("bytes of the same block are requested once", async () => {
  const { cache, requests } = file(4 * BLOCK);
  await read(cache, 10, 20);
  await read(cache, 0, BLOCK);
  assert.deepEqual(requests, [[0, BLOCK]]);
  await read(cache, 10, 3 * BLOCK);
  assert.deepEqual(requests, [[0, BLOCK], [BLOCK, 3 * BLOCK]]);
});

test("readers that need the same bytes at the same time share a request", async () => {
  const { cache, requests } = file(4 * BLOCK);
  const [one, other] = await Promise.all([read(cache, 0, 3 * BLOCK), read(cache, BLOCK, 2 * BLOCK)]);
  assert.deepEqual(one, expected(0, 3 * BLOCK));
  assert.deepEqual(other, expected(BLOCK, 2 * BLOCK));
  assert.deepEqual(requests, [[0, 3 * BLOCK]]);
});

test("what was used last is kept within the limit", async () => {
  const { cache, requests } = file(3 * MIB, 2 * MIB);
  for (const start of [0, MIB, 0, 2 * MIB]) await read(cache, start, start + MIB);
  assert.equal(requests.length, 3);
  await read(cache, 0, 10); // was used after the second chunk
  assert.equal(requests.length, 3);
  await read(cache, MIB, MIB + 10);
  assert.equal(requests.length, 4);
});

test("a request ends when its last reader leaves", async () => {
  const { cache, cancelled } = file(4 * MIB);
  const [one, other] = [cache.read(0, 4 * MIB), cache.read(0, 4 * MIB)];
  await Promise.all([one.next(), other.next()]);
  await one.return();
  assert.equal(cancelled(), 0);
  await other.return();
  assert.equal(cancelled(), 1);
});

test("an abort rejects with its reason", async () => {
  const { cache } = file(4 * MIB);
  const controller = new AbortController();
  const pieces = cache.read(0, 4 * MIB, controller.signal);
  await pieces.next();
  controller.abort("left");
  await assert.rejects(pieces.next(), (reason) => reason === "left");
});

test("a failed request is not kept: the next read requests the bytes again", async () => {
  let isBroken = true;
  const source = file(BLOCK, MIB, () => isBroken);
  await assert.rejects(read(source.cache, 0, 10), /reset/);
  isBroken = false;
  assert.deepEqual(await read(source.cache, 0, 10), expected(0, 10));
});

const byteAt = (at) => (at * 31 + (at >> 8)) & 255;
const expected = (start, end) => Buffer.from(Array.from({ length: end - start }, (_, at) => byteAt(start + at)));

async function read(cache, start, end) {
  const pieces = [];
  for await (const piece of cache.read(start, end)) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces);
}

function file(byteLength, maxBytes = 64 * MIB, isBroken = () => false) {
  const requests = [];
  let cancelled = 0;
  const cache = new BlockCache(byteLength, maxBytes, (start, end) => {
    requests.push([start, end]);
    let at = start;
    return {
      async read(length) {
        if (isBroken()) throw new Error("reset");
        const bytes = new Uint8Array(Math.min(length, end - at));
        for (let i = 0; i < bytes.length; i++) bytes[i] = byteAt(at + i);
        at += bytes.length;
        return bytes;
      },
      cancel: () => cancelled++,
    };
  });
  return { cache, requests, cancelled: () => cancelled };
}
