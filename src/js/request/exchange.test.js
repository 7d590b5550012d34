import assert from "node:assert/strict";
import { test } from "node:test";
import { fail } from "../loader/error.js";
import { Exchange } from "./exchange.js";

const URL = "https://a.test/m";
const refused = (status) => new Response("no", { status });

test("the head of the last response with bytes is kept", async () => {
  const exchange = new Exchange(async () => new Response("a", { headers: { ETag: '"1"' } }), null);
  await exchange.fetch(URL);
  assert.equal(exchange.head.headers.get("ETag"), '"1"');
});

test("a refusal belongs to the caller, and the module gets a copy of its head", async () => {
  const exchange = new Exchange(async () => refused(404), null);
  const copy = await exchange.fetch(URL);
  assert.deepEqual([copy.status, copy.body], [404, null]);
  const error = fail({ code: "HTTP", message: "", status: 404 });
  assert.equal(await exchange.refusalOf(error, false).text(), "no");
  assert.equal(exchange.refusalOf(error, false), undefined);
});

test("an error with another status is no refusal", async () => {
  const exchange = new Exchange(async () => refused(404), null);
  await exchange.fetch(URL);
  assert.equal(exchange.refusalOf(fail({ code: "HTTP", message: "", status: 500 }), false), undefined);
  assert.equal(exchange.refusalOf(new Error("other"), false), undefined);
});

test("a refused range concerns only a caller that asked for one", async () => {
  const exchange = new Exchange(async () => refused(416), null);
  await exchange.fetch(URL);
  const error = fail({ code: "HTTP", message: "", status: 416 });
  assert.equal(exchange.isRangeRefused, true);
  assert.equal(exchange.refusalOf(error, false), undefined);
  assert.equal(exchange.refusalOf(error, true).status, 416);
});

test("the request of a signature is not one of the file", async () => {
  const exchange = new Exchange(async () => refused(404), null, `${URL}.sig`);
  assert.equal(await (await exchange.fetch(`${URL}.sig`)).text(), "no");
  assert.equal(exchange.refusalOf(fail({ code: "HTTP", message: "", status: 404 }), false), undefined);
});

test("a signal of the caller or of the module aborts the request", async () => {
  for (const isCaller of [true, false]) {
    const [caller, module] = [new AbortController(), new AbortController()];
    let sent;
    const exchange = new Exchange(async (_, { signal }) => ((sent = signal), new Response("a")), caller.signal);
    await exchange.fetch(URL, { signal: module.signal });
    (isCaller ? caller : module).abort("left");
    assert.equal(sent.reason, "left");
  }
});
