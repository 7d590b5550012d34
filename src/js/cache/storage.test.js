import assert from "node:assert/strict";
import { test } from "node:test";
import { answered, cachePersisted, warnUncached } from "./storage.js";

test("a storage that does not answer is an error", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const answer = answered(new Promise(() => {}));
  t.mock.timers.tick(1_000);
  await assert.rejects(answer, /does not answer/);
  assert.equal(await answered(Promise.resolve(1)), 1);
});

test("only a cache of the browser can be persisted", async () => {
  for (const [source, cache] of [["https://a.test/", "none"], ["https://a.test/", {}], [new Blob([]), "auto"]]) {
    assert.equal(await cachePersisted(source, cache), undefined);
  }
});

test("says once in a page that nothing is cached, and nothing outside of pages", (t) => {
  const warn = t.mock.method(console, "warn", () => {});
  const url = "https://example.org/m.gguf";
  warnUncached(url, "none");
  assert.equal(warn.mock.callCount(), 0);
  globalThis.document = {};
  t.after(() => delete globalThis.document);
  for (const source of [[], url, url]) warnUncached(source, "none");
  warnUncached(url, "auto");
  assert.equal(warn.mock.callCount(), 1);
  assert.match(warn.mock.calls[0].arguments[0], /downloaded again/);
});
