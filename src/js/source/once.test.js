import assert from "node:assert/strict";
import { test } from "node:test";
import { isResponse, onceOptions } from "./once.js";

test("only a Response is a Response", () => {
  assert.equal(isResponse(new Response("a")), true);
  for (const other of ["https://a.test/", new Blob([]), {}, null]) assert.equal(isResponse(other), false);
});

test("the body is read once, and nothing is cached", async () => {
  const [url, { fetch, cache }] = onceOptions(new Response("weights", { headers: { "Content-Length": "7" } }));
  assert.equal(cache, "none");
  const response = await fetch(url);
  assert.equal(response.headers.get("Content-Length"), "7");
  assert.equal(await response.text(), "weights");
  await assert.rejects(fetch(url), { code: "UNSUPPORTED", message: /read only once/ });
});

test("other files are requested from the network", async () => {
  const [, { fetch }] = onceOptions(new Response("a"), async (url) => new Response(`of ${url}`));
  assert.equal(await (await fetch("https://a.test/b")).text(), "of https://a.test/b");
});

test("a second request after a broken connection reports why it broke", async () => {
  const cause = new Error("reset");
  const body = new ReadableStream({ pull: (controller) => controller.error(cause) });
  const [url, { fetch }] = onceOptions(new Response(body));
  await assert.rejects((await fetch(url)).text());
  await assert.rejects(fetch(url), { code: "NETWORK", cause });
});

test("a response that is no whole file is refused", async () => {
  assert.throws(() => onceOptions(new Response(null, { status: 404 })), { code: "HTTP", status: 404 });
  assert.throws(() => onceOptions(new Response("a", { status: 206 })), { message: /without Range/ });
  assert.throws(() => onceOptions(Response.error()), { message: /type "error"/ });
  const read = new Response("a");
  await read.text();
  assert.throws(() => onceOptions(read), { message: /already read/ });
});

test("an abort cancels the body", async () => {
  let cancelled;
  const body = new ReadableStream({ cancel: (reason) => void (cancelled = reason) });
  const [url, { fetch }] = onceOptions(new Response(body));
  const controller = new AbortController();
  await fetch(url, { signal: controller.signal });
  controller.abort("left");
  await Promise.resolve();
  assert.equal(cancelled, "left");
});
