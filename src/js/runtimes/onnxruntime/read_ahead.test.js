import assert from "node:assert/strict";
import { test } from "node:test";
import { ReadAhead } from "./read_ahead.js";

const MIB = 1024 * 1024;

// As browsers have it, and Node.js from 21 on.
ArrayBuffer.prototype.transfer ??= function (length = this.byteLength) {
  return structuredClone(this, { transfer: [this] }).slice(0, length);
};

// A file whose bytes are their positions modulo 251, read in pieces of this length. Notes what is requested.
function file({ pieceBytes = MIB, fails = () => false } = {}) {
  const requests = [];
  const delivered = [];
  let buffer = new Uint8Array(pieceBytes); // valid until the next piece, as in the module
  const buffers = new Set();
  async function* read(start, end, signal) {
    requests.push([start, end]);
    for (let at = start; at < end;) {
      await new Promise((resolve) => setImmediate(resolve));
      signal?.throwIfAborted();
      if (buffer.length === 0) buffer = new Uint8Array(pieceBytes); // the memory of the last one was taken
      buffers.add(buffer.buffer);
      const piece = buffer.subarray(0, Math.min(pieceBytes, end - at));
      if (fails(at)) throw new Error(`cannot read ${at}`);
      piece.forEach((_, offset) => (piece[offset] = (at + offset) % 251));
      delivered.push([at, (at += piece.length)]);
      yield piece;
    }
  }
  return { read, requests, delivered, buffers, total: () => delivered.reduce((sum, [from, to]) => sum + to - from, 0) };
}

async function ask(ahead, start, end, signal) {
  let at = start;
  for await (const piece of ahead.read(start, end, signal)) {
    for (const byte of piece) assert.equal(byte, at++ % 251);
    await new Promise((resolve) => setImmediate(resolve)); // as a stream that is read slowly
  }
  assert.equal(at, end);
}

const idle = async () => {
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
};

test("begins before it is asked, and requests nothing twice", async () => {
  const { read, requests, total } = file({ pieceBytes: 10 });
  const ahead = new ReadAhead({ ahead: read, now: read }, [[0, 25], [25, 40], [40, 60]], 1000);
  await idle();
  assert.deepEqual(requests, [[0, 25], [25, 40], [40, 60]]);
  for (const range of [[40, 60], [0, 25], [25, 40]]) await ask(ahead, ...range);
  assert.equal(total(), 60);
});

test("takes the memory of whole pieces instead of a copy", async () => {
  const { read, buffers } = file();
  const ahead = new ReadAhead({ ahead: read, now: read }, [[0, 2 * MIB + 10]], 10 * MIB);
  await idle();
  assert.equal(buffers.size, 3, "two were taken, and the third piece is a part of its buffer");
  assert.deepEqual([...buffers].map(({ byteLength }) => byteLength), [0, 0, MIB]);
  await ask(ahead, 0, 2 * MIB + 10);
});

test("keeps few bytes while nothing is asked for", async () => {
  const { read, requests, total } = file({ pieceBytes: 10 });
  const ranges = Array.from({ length: 20 }, (_, at) => [at * 100, (at + 1) * 100]);
  const ahead = new ReadAhead({ ahead: read, now: read }, ranges, 150);
  await idle();
  assert.ok(total() <= 150 + 3 * 10, `${total()} bytes are kept`);
  for (const range of ranges) await ask(ahead, ...range);
  assert.equal(total(), 2000);
  assert.equal(requests.length, 20);
});

test("an order that was not expected costs no byte", async () => {
  const { read, total } = file({ pieceBytes: 10 });
  const ranges = Array.from({ length: 20 }, (_, at) => [at * 100, (at + 1) * 100]);
  const ahead = new ReadAhead({ ahead: read, now: read }, ranges, 150);
  await idle();
  const places = Array.from({ length: 20 }, (_, at) => (at * 7 + 3) % 20);
  for (const place of places) await ask(ahead, ...ranges[place]);
  assert.equal(total(), 2000);
});

test("parts of ranges, and reads over several ranges, are not read twice", async () => {
  const { read, total } = file({ pieceBytes: 10 });
  const ahead = new ReadAhead({ ahead: read, now: read }, [[20, 60], [60, 100], [100, 120]], 30);
  await ask(ahead, 30, 50);
  await ask(ahead, 20, 30);
  await ask(ahead, 50, 110);
  await ask(ahead, 110, 130); // the last ten bytes were not expected
  assert.equal(total(), 110);
});

test("reads of the same bytes at the same time do not disturb each other", async () => {
  const { read } = file({ pieceBytes: 10 });
  const ahead = new ReadAhead({ ahead: read, now: read }, [[0, 50], [50, 100]], 20);
  await Promise.all([ask(ahead, 0, 100), ask(ahead, 0, 100), ask(ahead, 40, 60)]);
  await ask(ahead, 0, 100);
});

test("pieces larger than a buffer, and buffers that are used again, keep their bytes", async () => {
  const { read, total } = file({ pieceBytes: 3 * MIB });
  const ahead = new ReadAhead({ ahead: read, now: read }, [[0, 5 * MIB], [5 * MIB, 9 * MIB]], 2 * MIB);
  await ask(ahead, 0, 5 * MIB);
  await ask(ahead, 5 * MIB, 9 * MIB);
  assert.equal(total(), 9 * MIB);
});

test("a failure is reported to the read that needs the bytes, and only there", async () => {
  let isBroken = true;
  const { read } = file({ pieceBytes: 10, fails: (at) => isBroken && at === 30 });
  const ahead = new ReadAhead({ ahead: read, now: read }, [[0, 20], [20, 50]], 1000);
  await idle();
  await ask(ahead, 0, 20);
  await assert.rejects(ask(ahead, 20, 50), /cannot read 30/);
  isBroken = false;
  await ask(ahead, 20, 50);
});

test("after a stop, nothing is read ahead, and reads go on", async () => {
  const { read, total } = file({ pieceBytes: 10 });
  const ahead = new ReadAhead({ ahead: read, now: read }, [[0, 50], [50, 100]], 1000);
  const asked = ask(ahead, 0, 100);
  ahead.stop();
  await asked;
  const before = total();
  await idle();
  assert.equal(total(), before);
});

test("after a clear, a running read gets the rest of its range, and nothing else is read", async () => {
  const { read, requests } = file({ pieceBytes: 10 });
  const ahead = new ReadAhead({ ahead: read, now: read }, [[0, 50], [50, 100], [100, 150]], 20);
  const asked = ask(ahead, 0, 50);
  await new Promise((resolve) => setImmediate(resolve));
  ahead.clear();
  await asked;
  await idle();
  assert.deepEqual(requests.filter(([start]) => start < 50), [[0, 50]]);
});

test("an aborted read rejects with the reason", async () => {
  const { read } = file({ pieceBytes: 10 });
  const ahead = new ReadAhead({ ahead: read, now: read }, [[0, 50]], 1000);
  const controller = new AbortController();
  const asked = ask(ahead, 0, 50, controller.signal);
  controller.abort(new Error("not needed"));
  await assert.rejects(asked, /not needed/);
});

test("a part in the middle of a long range does not wait for the bytes before it", async () => {
  const { read, total } = file();
  const ahead = new ReadAhead({ ahead: read, now: read }, [[0, 64 * MIB]], 2 * MIB);
  await ask(ahead, 60 * MIB, 61 * MIB);
  assert.ok(total() < 8 * MIB, `${total()} bytes were read`);
  await ask(ahead, 0, 64 * MIB);
  assert.equal(total(), 65 * MIB);
});

test("a range is handed over from one read, and never combined from two", async () => {
  const { read, requests } = file({ pieceBytes: 10 });
  const ahead = new ReadAhead({ ahead: read, now: read }, [[0, 50], [50, 100]], 20);
  await ask(ahead, 0, 30);
  await ask(ahead, 0, 50); // the first bytes are not kept any more
  await ask(ahead, 10, 20);
  await ask(ahead, 0, 100);
  assert.deepEqual(requests.filter(([start, end]) => end - start !== 50).sort((a, b) => a[0] - b[0]), [[10, 20]]);
});

test("bytes that were asked for twice count once", async () => {
  const { read, total } = file({ pieceBytes: 10 });
  const ahead = new ReadAhead({ ahead: read, now: read }, [[0, 100]], 1000);
  await idle();
  await ask(ahead, 0, 50);
  await ask(ahead, 0, 50);
  await ask(ahead, 50, 100);
  assert.equal(total(), 100);
});

test("the error of bytes that belong to others is not reported", async () => {
  const { read } = file({ pieceBytes: 10, fails: (at) => at < 10 });
  const ahead = new ReadAhead({ ahead: read, now: read }, [[0, 30]], 1000);
  await ask(ahead, 10, 20);
  await assert.rejects(ask(ahead, 0, 10), /cannot read 0/);
});

test("after a failed read ahead, no other range is requested until the runtime has received bytes", async () => {
  let isBroken = true;
  const { read, requests } = file({ pieceBytes: 10, fails: () => isBroken });
  const ranges = Array.from({ length: 100 }, (_, at) => [at * 10, (at + 1) * 10]);
  const ahead = new ReadAhead({ ahead: read, now: read }, ranges, 1000);
  await idle();
  assert.ok(requests.length <= 6, `${requests.length} requests`);
  isBroken = false;
  await ask(ahead, 0, 10);
  await idle();
  assert.ok(requests.length > 20, `${requests.length} requests`);
});

test("an aborted read settles although its bytes do not arrive", async () => {
  async function* read(_start, _end, signal) {
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped"))));
  }
  const ahead = new ReadAhead({ ahead: read, now: read }, [[0, 50]], 1000);
  const controller = new AbortController();
  const asked = ask(ahead, 0, 50, controller.signal);
  setTimeout(() => controller.abort(new Error("not needed")), 10);
  await assert.rejects(asked, /not needed/);
  ahead.stop();
});
