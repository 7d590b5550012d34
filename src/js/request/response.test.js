import assert from "node:assert/strict";
import { test } from "node:test";
import { asSeen, joined, responseOf } from "./response.js";

const streamOf = (...pieces) => new ReadableStream({
  pull(controller) {
    const piece = pieces.shift();
    if (piece === undefined) controller.close();
    else if (piece instanceof Error) controller.error(piece);
    else controller.enqueue(new TextEncoder().encode(piece));
  },
});

test("each method of a response rejects with the error of its stream", async () => {
  for (const method of ["arrayBuffer", "blob", "bytes", "json", "text"]) {
    const failure = new Error("reset");
    await assert.rejects(responseOf(streamOf("a", failure), {})[method](), failure, method);
  }
});

test("a response is read like one of fetch", async () => {
  const how = { headers: { "Content-Type": "application/json" } };
  assert.deepEqual(await responseOf(streamOf('{"a"', ":1}"), how).json(), { a: 1 });
  const blob = await responseOf(streamOf("ab"), how).blob();
  assert.deepEqual([blob.size, blob.type], [2, "application/json"]);
  const response = responseOf(streamOf("ab"), {});
  assert.equal(await response.clone().text(), "ab");
  await response.text();
  await assert.rejects(response.text(), TypeError);
});

test("a response states what the server said, and its headers cannot be changed", () => {
  const response = asSeen(new Response(""), { url: "https://a.test/", type: "cors", redirected: true });
  assert.deepEqual([response.url, response.type, response.redirected], ["https://a.test/", "cors", true]);
  assert.throws(() => response.headers.set("a", "b"), TypeError);
});

test("pieces are joined in their order", () => {
  assert.deepEqual([...joined([new Uint8Array([1, 2]), new Uint8Array(0), new Uint8Array([3])])], [1, 2, 3]);
});
