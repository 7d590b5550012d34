import assert from "node:assert/strict";
import { test } from "node:test";
import { externalRanges } from "./graph.js";

const varint = (value) => (value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))]);
const message = (number, content) => [...varint(number * 8 + 2), ...varint(content.length), ...content];
const text = (number, content) => message(number, [...new TextEncoder().encode(content)]);
const tensor = (place) =>
  Object.entries(place).flatMap(([key, value]) => message(13, [...text(1, key), ...text(2, value)]));

function model(...graph) {
  return Uint8Array.from([...varint(8), ...varint(8), ...message(7, graph.flat())]);
}

test("finds the initializers in one file, in the order of the graph", () => {
  const graph = model(
    message(5, [...varint(8), ...varint(300), ...tensor({ location: "a.bin", offset: "8192", length: "64" })]),
    message(5, tensor({ location: "b.bin", offset: "0", length: "9" })),
    message(5, text(9, "inline")),
    message(5, tensor({ location: "./a.bin", length: "10" })),
  );
  assert.deepEqual(externalRanges(graph, "a.bin"), [[8192, 8256], [0, 10]]);
  assert.deepEqual(externalRanges(graph, "./b.bin"), [[0, 9]]);
});

test("finds those of the branches of a node, and the parts of sparse ones", () => {
  const branch = message(5, tensor({ location: "a.bin", offset: "5", length: "5" }));
  const node = message(1, message(5, message(6, branch)));
  const sparse = message(15, message(1, tensor({ location: "a.bin", offset: "20", length: "2" })));
  assert.deepEqual(externalRanges(model(node, sparse), "a.bin"), [[5, 10], [20, 22]]);
});

test("a length that is not stated reaches up to the end", () => {
  assert.deepEqual(externalRanges(model(message(5, tensor({ location: "a", offset: "4" }))), "a"), [[4, Infinity]]);
});

test("leaves out what is no range", () => {
  const odd = [{ offset: "0.5" }, { length: "99.5" }, { offset: "0x10" }, { offset: "" }, { offset: "-1" }, {
    offset: "9007199254740993", length: "1",
  }, { offset: "1", length: "9007199254740991" }];
  const graph = model(...odd.map((place) => message(5, tensor({ location: "a", ...place }))));
  assert.deepEqual(externalRanges(graph, "a"), []);
});

test("refuses what is not an ONNX model", () => {
  const files = [[0x3a, 0xff], [0x3a, 0x05, 1], [0x0f], [0x3a, 0x01, 0x80], [...new TextEncoder().encode("<html>")]];
  for (const file of files) {
    assert.throws(() => externalRanges(Uint8Array.from(file), "a"), { code: "INVALID_ARGUMENT" });
  }
  let nested = message(5, tensor({ location: "a" }));
  for (let depth = 0; depth < 40; depth++) nested = message(1, message(5, message(6, nested)));
  assert.throws(() => externalRanges(model(nested), "a"), { code: "INVALID_ARGUMENT" });
});
