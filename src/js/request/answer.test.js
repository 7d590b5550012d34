import assert from "node:assert/strict";
import { test } from "node:test";
import { byteStream } from "../file/stream.js";
import { answer, firstByteOf, noSuchBytes } from "./answer.js";

const URL = "https://a.test/m";

test("the whole file is answered with the head of the server", async () => {
  const headers = new Headers({ "Content-Type": "text/plain", ETag: '"1"', "Content-Length": "5" });
  const { opened, closed } = file("hello", { status: 200, statusText: "Fine", headers });
  const response = answer(opened, undefined);
  assert.deepEqual([response.status, response.statusText, response.url], [200, "Fine", URL]);
  assert.deepEqual([response.headers.get("ETag"), response.headers.get("Content-Length")], ['"1"', "5"]);
  assert.equal(await response.text(), "hello");
  assert.equal(closed(), 1);
});

test("a range states its bytes, whatever the server was asked for", async () => {
  const headers = new Headers({ "Content-Range": "bytes 0-0/5", "Content-Length": "1" });
  const { opened } = file("hello", { status: 206, statusText: "Partial Content", headers });
  const response = answer(opened, { start: 1, end: 3 });
  assert.equal(response.status, 206);
  assert.equal(response.headers.get("Content-Range"), "bytes 1-2/5");
  assert.equal(response.headers.get("Content-Length"), "2");
  assert.equal(await response.text(), "el");
});

test("the whole file does not state the range that the server was asked for", () => {
  const headers = new Headers({ "Content-Range": "bytes 0-0/5", "Content-Length": "1" });
  const response = answer(file("hello", { status: 206, statusText: "Partial Content", headers }).opened, undefined);
  assert.deepEqual([response.status, response.statusText], [200, "OK"]);
  assert.equal(response.headers.get("Content-Range"), null);
  assert.equal(response.headers.get("Content-Length"), "5");
});

test("a cached file is answered without a head of the server", async () => {
  const response = answer(file("hello").opened, { suffix: 2 });
  assert.equal(response.headers.get("Content-Range"), "bytes 3-4/5");
  assert.equal(response.headers.get("Content-Type"), "application/octet-stream");
  assert.equal(await response.text(), "lo");
});

test("there is no answer for bytes that the file does not have", () => {
  const { opened } = file("hello");
  assert.equal(answer(opened, { start: 5, end: 9 }), undefined);
  const response = noSuchBytes(opened);
  assert.deepEqual([response.status, response.headers.get("Content-Range")], [416, "bytes */5"]);
});

test("an empty file is closed at once", async () => {
  const { opened, closed } = file("");
  assert.equal(await answer(opened, undefined).text(), "");
  assert.equal(closed(), 1);
});

test("a request for the first byte keeps the file open", async () => {
  const { opened, closed } = file("hello");
  const response = await firstByteOf(opened);
  assert.equal(response.headers.get("Content-Range"), "bytes 0-0/5");
  assert.equal(await response.text(), "h");
  assert.equal(closed(), 0);
});

function file(text, head) {
  const all = new TextEncoder().encode(text);
  let closed = 0;
  return {
    closed: () => closed,
    opened: {
      url: URL,
      head,
      file: {
        byteLength: all.length,
        type: "application/octet-stream",
        close: () => closed++,
        bytes: async (start, end) => all.slice(start, end),
        stream: ({ start, end = all.length }) => byteStream(async function* () {
          yield all.slice(start, end);
        }),
      },
    },
  };
}
