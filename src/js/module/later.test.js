import assert from "node:assert/strict";
import { test } from "node:test";
import { laterScript } from "./later.js";

test("a script is loaded once, when it is first needed", async () => {
  let loads = 0;
  const script = laterScript("weightstream.a.js", async () => ({ number: ++loads }));
  assert.equal(loads, 0);
  assert.deepEqual([await script.load(), await script.load()], [{ number: 1 }, { number: 1 }]);
});

test("a script that the entry point provides is not loaded", async () => {
  const script = laterScript("weightstream.a.js", () => assert.fail("loaded"));
  script.provide({ number: 1 });
  assert.deepEqual(await script.load(), { number: 1 });
});

test("a script that cannot be loaded is named, and tried again by the next call", async () => {
  let isOnline = false;
  const load = async () => {
    if (!isOnline) throw new TypeError("Failed to fetch");
    return {};
  };
  const script = laterScript("weightstream.a.js", load, "must import weightstream/a");
  await assert.rejects(script.load(), {
    code: "UNSUPPORTED",
    message: /^weightstream\.a\.js cannot be loaded: Failed to fetch\. .*workers must import weightstream\/a\.$/,
  });
  isOnline = true;
  assert.deepEqual(await script.load(), {});
});
