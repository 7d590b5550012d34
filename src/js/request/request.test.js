import assert from "node:assert/strict";
import { test } from "node:test";
import { credentialsOf, isSameVersion, membersOf, ordinaryOption, rangeOf, within } from "./request.js";

test("a single range is understood", () => {
  assert.deepEqual(rangeOf("bytes=5-9"), { start: 5, end: 10 });
  assert.deepEqual(rangeOf("bytes=5-"), { start: 5, end: Infinity });
  assert.deepEqual(rangeOf("bytes=-5"), { suffix: 5 });
  assert.deepEqual(rangeOf(`bytes=0-${2n ** 64n - 1n}`), { start: 0, end: Infinity });
});

test("what a server ignores or answers in parts is no range", () => {
  for (const header of ["bytes=9-5", "bytes=0-1,4-5", "lines=0-1", "bytes=a-b", "bytes=", "bytes=-"]) {
    assert.equal(rangeOf(header), undefined, header);
  }
});

test("a range ends with the file", () => {
  assert.deepEqual(within({ start: 5, end: 10 }, 8), [5, 8]);
  assert.deepEqual(within({ start: 5, end: Infinity }, undefined), [5, undefined]);
  assert.deepEqual(within({ suffix: 5 }, 8), [3, 8]);
  assert.deepEqual(within({ suffix: 50 }, 8), [0, 8]);
});

test("only a strong condition that matches allows a range", () => {
  const headers = new Headers({ ETag: '"1"', "Last-Modified": "Tue" });
  assert.equal(isSameVersion(null, headers), true);
  assert.equal(isSameVersion('"1"', headers), true);
  assert.equal(isSameVersion("Tue", headers), true);
  for (const other of ['"2"', 'W/"1"', "Wed"]) assert.equal(isSameVersion(other, headers), false, other);
  assert.equal(isSameVersion('W/"1"', new Headers({ ETag: 'W/"1"' })), false);
  assert.equal(isSameVersion('"1"', undefined), false);
});

test("requests that only fetch can answer are left to it", () => {
  const left = (url, init = {}) => {
    const request = new Request(url, init);
    return ordinaryOption(request, request.headers);
  };
  assert.equal(left("https://a.test/"), undefined);
  assert.equal(left("https://a.test/", { headers: { Range: "bytes=0-1" } }), undefined);
  assert.equal(left("data:,a"), "the scheme of the URL");
  assert.equal(left("https://a.test/", { redirect: "manual" }), "`redirect`");
  assert.equal(left("https://a.test/", { integrity: "sha256-a" }), "`integrity`");
  assert.equal(left("https://a.test/", { headers: { Range: "bytes=0-1,3-4" } }), "the header Range");
  assert.equal(left("https://a.test/", { headers: { "If-None-Match": '"1"' } }), "the header If-None-Match");
});

test("members that an object inherits are read, each once", () => {
  let reads = 0;
  class Init {
    get method() {
      reads++;
      return "POST";
    }
  }
  assert.deepEqual(membersOf(new Init()), { method: "POST" });
  assert.equal(reads, 1);
  assert.deepEqual(membersOf(undefined), {});
});

test("credentials of a Request count only if they were chosen", () => {
  assert.equal(credentialsOf("https://a.test/", {}), undefined);
  assert.equal(credentialsOf(new Request("https://a.test/"), {}), undefined);
  assert.equal(credentialsOf(new Request("https://a.test/", { credentials: "include" }), {}), "include");
  assert.equal(credentialsOf(new Request("https://a.test/"), { credentials: "omit" }), "omit");
});
