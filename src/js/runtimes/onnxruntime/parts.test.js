import assert from "node:assert/strict";
import { test } from "node:test";
import { externalRanges } from "./graph.js";
import { partsOf } from "./parts.js";
import { joined } from "../../request/response.js";
import { decoded, encoded, field, fields } from "./protobuf.js";

const LOCATION = "model.safetensors";
const message = (...parts) => joined(parts.flatMap(([number, content]) => field(number, [content])));
const text = (value) => encoded(value);
const value = (name) => message([1, text(name)]);

function weight(name, offset, length) {
  const entries = Object.entries({ location: LOCATION, offset, length });
  const entry = ([key, value]) => [13, message([1, text(key)], [2, text(`${value}`)])];
  return message([8, text(name)], ...entries.map(entry));
}

const node = (input, output, ...more) => message([1, text(input)], [2, text(output)], ...more);

function model(mark, graph = [
  [1, node("x", "h")], [1, node("h", "y")], [5, weight("v", 100, 50)], [5, weight("w", 0, 40)],
  [11, value("x")], [11, value("v")], [12, value("y")], [13, value("h")],
]) {
  const metadata = [14, message([1, text("weightstream.parts")], [2, text(mark)])];
  return joined([Uint8Array.of(8, 10), message([8, message([1, text("")])], [7, message(...graph)], metadata)]);
}

const PARTS = [
  { nodes: [[0, 1]], initializers: [[1, 2]], inputs: ["x"], outputs: ["h"] },
  { nodes: [[1, 2]], initializers: [[0, 2]], inputs: ["h"], outputs: ["y"] },
];
const marked = (parts = PARTS) => JSON.stringify({ weights: "model.apr", parts });

const namesIn = (graph, number) => {
  const content = [...fields(graph)].find((field) => field.number === 7).content;
  return [...fields(content)].filter((field) => field.number === number)
    .map(({ content }) => decoded([...fields(content)].at(0).content));
};

test("each part is a graph with its own inputs, outputs and weights", () => {
  const { weights, location, parts, inputs, outputs } = partsOf(model(marked()));
  assert.deepEqual([weights, location, inputs, outputs], ["model.apr", LOCATION, ["x"], ["y"]]);
  assert.deepEqual(parts.map(({ graph }) => [11, 12].map((number) => namesIn(graph, number))), [
    [["x"], ["h"]], [["h"], ["y"]],
  ]);
  assert.deepEqual([...parts[0].graph.subarray(0, 2)], [8, 10], "the version is copied");
});

test("a part refers to a file that has its weights one after another", () => {
  const { parts } = partsOf(model(marked()));
  assert.deepEqual(parts.map(({ segments }) => segments), [
    [{ start: 0, end: 40, at: 0 }], [{ start: 0, end: 40, at: 0 }, { start: 100, end: 150, at: 40 }],
  ]);
  assert.deepEqual(parts.map(({ graph }) => externalRanges(graph, LOCATION)), [[[0, 40]], [[40, 90], [0, 40]]]);
});

test("weights that overlap or touch are one segment, also those of graphs in nodes", () => {
  const branch = message([6, message([5, weight("own", 30, 20)])]);
  const graph = [[1, node("x", "y", [5, branch])], [5, weight("w", 0, 40)], [5, weight("v", 50, 10)], [11, value("x")],
    [12, value("y")]];
  const part = { nodes: [[0, 1]], initializers: [[0, 2]], inputs: ["x"], outputs: ["y"] };
  const [{ segments, graph: own }] = partsOf(model(marked([part]), graph)).parts;
  assert.deepEqual(segments, [{ start: 0, end: 60, at: 0 }]);
  assert.deepEqual(externalRanges(own, LOCATION), [[30, 50], [0, 40], [50, 60]]);
});

test("the shape of a value between parts is left out, that of an input is not", () => {
  const shaped = (name) => message([1, text(name)], [2, message([1, joined([
    Uint8Array.of(8, 1), ...field(2, [message([1, Uint8Array.of(8, 5)])]),
  ])])]);
  const { parts } = partsOf(model(marked(), [
    [1, node("x", "h")], [1, node("h", "y")], [5, weight("v", 100, 50)], [5, weight("w", 0, 40)], [11, shaped("x")],
    [12, shaped("y")], [13, shaped("h")],
  ]));
  const lengths = parts.map(({ graph }) => {
    const content = [...fields(graph)].find((field) => field.number === 7).content;
    return [...fields(content)].find((field) => field.number === 11).content.length;
  });
  assert.deepEqual(lengths, [shaped("x").length, 9], "an input of the graph, and name and element type");
});

test("refuses a mark that does not fit the graph", () => {
  const part = (changed) => marked([{ ...PARTS[0], ...changed }]);
  const damaged = [
    "", "[]", "{}", marked([]), part({ nodes: [[0, 9]] }), part({ nodes: [[1, 0]] }), part({ nodes: [[0, 0.5]] }),
    part({ inputs: [1] }), part({ initializers: [[0, 1e9]] }), part({ outputs: ["z"] }), part({ outputs: [] }),
    part({ inputs: ["y"] }), part({ nodes: [[0, 1], [0, 1]] }), marked([...PARTS, PARTS[0]]),
    marked(Array.from({ length: 65 }, (_, at) => ({ ...PARTS[0], outputs: [`h${at}`] }))),
  ];
  for (const mark of damaged) assert.throws(() => partsOf(model(mark)), { code: "FORMAT" }, mark);
  assert.throws(() => partsOf(Uint8Array.of(8, 10)), { code: "INVALID_ARGUMENT" });
  assert.throws(() => partsOf(text("<html>")), { code: "INVALID_ARGUMENT" });
});
