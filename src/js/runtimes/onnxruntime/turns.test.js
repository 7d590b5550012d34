import assert from "node:assert/strict";
import { test } from "node:test";
import { inTurn } from "./turns.js";

test("work for one runtime is done one after another, also after an error", async () => {
  const events = [];
  const work = (name, error) => async () => {
    events.push(`${name} begins`);
    await new Promise((resolve) => setImmediate(resolve));
    events.push(`${name} ends`);
    if (error) throw error;
    return name;
  };
  const [first, other] = [{}, {}];
  const failed = inTurn(first, work("a", new Error("no memory")));
  const second = inTurn(first, work("b"));
  await inTurn(other, work("c"));
  await assert.rejects(failed, /no memory/);
  assert.equal(await second, "b");
  assert.deepEqual(events.filter((event) => !event.startsWith("c")), ["a begins", "a ends", "b begins", "b ends"]);
  assert.ok(events.indexOf("c ends") < events.indexOf("b ends"), "another runtime does not wait");
});
