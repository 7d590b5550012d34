import assert from "node:assert/strict";
import { test } from "node:test";
import { Names } from "./names.js";

const layers = (/** @type {string} */ start) => [0, 1, 10].flatMap((layer) =>
  ["weight", "bias"].map((end) => `${start}.layers.${layer}.self_attn.q_proj.${end}`));

test("a name that fits is shown whole", () => {
  const names = new Names(["encoder.layer.0.weight", "encoder.layer.1.weight"]);
  assert.equal(names.segments("encoder.layer.0.weight", 20).join(""), "encoder.layer.0.weight");
});

test("only segments that all names with the same beginning share are left out", () => {
  const long = layers("model.language_model.transformer");
  const names = new Names([...long, "model.embed_tokens.weight"]);
  assert.equal(names.segments(long[0], 12).join(""), "model.language_…0.…weight");
});

test("different names are never shown alike", () => {
  const all = [...layers("encoder"), ...layers("decoder"), ...layers("model.encoder"), "scale", "encoder.scale"];
  const names = new Names(all);
  for (const columns of [4, 10, 20, 40]) {
    assert.equal(new Set(all.map((name) => names.segments(name, columns).join(""))).size, all.length);
  }
});

test("counts the lines that segments need, also those longer than a line", () => {
  assert.equal(new Names(["abc.def.ghi"]).lines(20), 1);
  assert.equal(new Names(["abc.def.ghi"]).lines(8), 2);
  assert.equal(new Names(["a".repeat(45), "b".repeat(45)]).lines(10), 5);
});
