import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { originOf, requestPolicy } from "./request_policy.js";

afterEach(() => delete globalThis.location);

const headers = [["authorization", "Bearer s3cret"]];

test("headers and credentials go only to the origin of the URL", () => {
  const sentTo = requestPolicy({ headers, credentials: "include" }, "https://a.test/models/m.json");
  assert.deepEqual(sentTo("https://a.test/other"), { headers, credentials: "include" });
  for (const other of ["https://b.test/m", "http://a.test/m", "https://a.test:8443/m", "https://a.test.example/m"]) {
    assert.deepEqual(sentTo(other), {}, other);
  }
});

test("given origins replace that of the URL", () => {
  const sentTo = requestPolicy({ headers, origins: ["https://b.test"] }, "https://a.test/m");
  assert.deepEqual(sentTo("https://a.test/m"), {});
  assert.deepEqual(sentTo("https://b.test/m").headers, headers);
});

test("without a URL, the origin is that of the page", () => {
  globalThis.location = { origin: "https://app.test" };
  const sentTo = requestPolicy({ headers });
  assert.deepEqual(sentTo("https://app.test/m").headers, headers);
  assert.deepEqual(sentTo("https://a.test/m"), {});
});

test("without an origin, headers and credentials are refused", () => {
  for (const given of [{ headers }, { credentials: "include" }]) {
    assert.throws(() => requestPolicy(given), { code: "INVALID_ARGUMENT", message: /needs `origins`/ });
    globalThis.location = { origin: "null" };
    assert.throws(() => requestPolicy(given), { code: "INVALID_ARGUMENT" });
    delete globalThis.location;
  }
  assert.deepEqual(requestPolicy({ headers: [], credentials: "omit" })("https://a.test/m"), {});
});

test("the schemes of an app have origins that differ", () => {
  assert.notEqual(originOf("app://one/m"), originOf("app://two/m"));
});
