import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { setParts } from "../module/location.js";
import { absolute, textOf, tryUrl, urlOf } from "./url.js";

afterEach(() => {
  setParts({});
  delete globalThis.location;
});

const refuses = (url, message) => assert.throws(() => absolute(url, "url"), { code: "INVALID_ARGUMENT", message });

test("a URL is a string or an object", () => {
  assert.equal(urlOf("https://a.test/m"), "https://a.test/m");
  assert.equal(urlOf(new URL("https://a.test/m")), "https://a.test/m");
  assert.equal(textOf({ href: "https://a.test/m" }), undefined);
  assert.throws(() => urlOf(1), { code: "INVALID_ARGUMENT", message: /must be a URL/ });
});

test("a relative URL needs a page", () => {
  refuses("m.gguf", /there is no page with a URL/);
  globalThis.location = { href: "https://a.test/app/page.html" };
  assert.equal(absolute("m.gguf", "url"), "https://a.test/app/m.gguf");
  assert.equal(absolute("../m.gguf?a#b", "url"), "https://a.test/m.gguf?a#b");
  globalThis.location = { href: "about:blank" };
  refuses("m.gguf", /"about:blank", the URL of this page or worker, cannot be a base/);
});

test("an empty URL is refused", () => refuses("  ", /is an empty string/));

test("schemes that cannot be fetched are refused, unless a fetch of the caller gets them", () => {
  refuses("s3://bucket/m.gguf", /pass the https URL/);
  assert.equal(absolute("s3://bucket/m.gguf", "url", true), "s3://bucket/m.gguf");
});

test("a mistyped scheme is pointed out", () => {
  refuses("htps://a.test/m", /did you mean `https`\?/);
  refuses("localhost:8080/m.gguf", /did you mean "http:\/\/localhost:8080\/m.gguf"\?/);
});

test("a platform with files has URLs for paths", () => {
  const asked = [];
  setParts({ urlOf: (text, isPath) => (asked.push(isPath), isPath ? `file:///${text}` : undefined) });
  assert.equal(absolute("models/m.gguf", "url"), "file:///models/m.gguf");
  assert.equal(absolute("https://a.test/m", "url"), "https://a.test/m");
  assert.deepEqual(asked, [true, false]);
});

test("a text that is no URL is undefined", () => {
  assert.equal(tryUrl("a"), undefined);
  assert.equal(tryUrl("a", "https://a.test/").href, "https://a.test/a");
});
