import assert from "node:assert/strict";
import { test } from "node:test";
import { check, getter, shown, suggestion, tryGet } from "./check.js";

test("a value that is not valid is shown, with what is expected", () => {
  const isText = check((value) => typeof value === "string", "a string");
  assert.equal(isText("a", "name"), "a");
  assert.throws(() => isText(1n, "name"), { message: "`name` is 1n, but must be a string." });
});

test("long values are shown shortened", () => {
  assert.equal(shown("x".repeat(50)), `"${"x".repeat(40)}…"`);
  assert.equal(shown([1, 2, 3, 4, 5]), "an array of 5");
  assert.equal(shown(["a", null]), '["a", null]');
  assert.equal(shown(() => 1), "a function");
  assert.equal(shown(new Map()), "[object Map]");
});

test("a similar word is suggested, and no other", () => {
  assert.equal(suggestion("Maxmemory", ["cache", "maxMemory"]), ": did you mean `maxMemory`?");
  assert.equal(suggestion("workers", ["cache", "maxMemory"]), "");
  assert.equal(suggestion(1, ["1"]), "");
});

test("a getter reads objects of its class, and nothing else", () => {
  const href = getter("URL", "href");
  assert.equal(tryGet(href, new URL("https://a.test/")), "https://a.test/");
  assert.equal(tryGet(href, { href: "https://a.test/" }), undefined);
  assert.equal(tryGet(getter("NoSuchClass", "href"), {}), undefined);
});
