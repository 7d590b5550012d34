import assert from "node:assert/strict";
import { test } from "node:test";
import { byteStream, closing } from "./stream.js";

const bytes = (...values) => new Uint8Array(values);

async function* pieces() {
  yield bytes(1, 2, 3);
  yield bytes();
  yield bytes(4, 5);
}

test("a stream has the bytes of all pieces, as copies", async () => {
  const piece = bytes(1, 2);
  const stream = byteStream(async function* () {
    yield piece;
  });
  const { value } = await stream.getReader().read();
  piece.fill(9);
  assert.deepEqual([...value], [1, 2]);
  const all = await new Response(byteStream(pieces)).arrayBuffer();
  assert.deepEqual([...new Uint8Array(all)], [1, 2, 3, 4, 5]);
});

test("a BYOB reader gets the bytes in its own buffers", async () => {
  const reader = byteStream(pieces).getReader({ mode: "byob" });
  const found = [];
  for (;;) {
    const { value, done } = await reader.read(new Uint8Array(2));
    if (done) break;
    found.push(...value);
  }
  assert.deepEqual(found, [1, 2, 3, 4, 5]);
});

test("nothing is read before the first pull", () => {
  let isBegun = false;
  byteStream(async function* () {
    isBegun = true;
    yield bytes(1);
  });
  assert.equal(isBegun, false);
});

test("a cancelled stream aborts the read", async () => {
  let signal;
  const stream = byteStream(async function* (given) {
    signal = given;
    yield bytes(1);
    yield bytes(2);
  });
  const reader = stream.getReader();
  await reader.read();
  await reader.cancel("left");
  assert.equal(signal.reason, "left");
});

test("an error of a piece is the error of the stream", async () => {
  const failure = new Error("reset");
  const stream = byteStream(async function* () {
    yield bytes(1);
    throw failure;
  });
  const reader = stream.getReader();
  await reader.read();
  await assert.rejects(reader.read(), failure);
});

for (const [how, end] of [
  ["read to its end", async (reader) => { while (!(await reader.read()).done); }],
  ["cancelled", (reader) => reader.cancel()],
]) {
  test(`a file is closed when its stream was ${how}`, async () => {
    let closed = 0;
    const reader = closing(byteStream(pieces), () => closed++).getReader();
    await end(reader);
    assert.equal(closed, 1);
  });
}

test("a file is closed when the signal of its stream aborts, and the stream fails with the reason", async () => {
  let closed = 0;
  const controller = new AbortController();
  const reader = closing(byteStream(pieces), () => closed++, controller.signal).getReader();
  await reader.read();
  controller.abort("left");
  await assert.rejects(reader.read(), (reason) => reason === "left");
  assert.equal(closed, 1);
});
