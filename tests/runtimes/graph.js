// An ONNX graph, encoded as protobuf: y = x W + b, with W and b as external data.

export const ROWS = 512;
export const COLUMNS = 768;

// `weights` and `bias` are { offset, length } in the file `location`.
export function linearGraph(location, weights, bias) {
  const external = (name, dims, { offset, length }) => [
    ...dims.map((dim) => integer(1, dim)),
    integer(2, 1), // F32
    text(8, name),
    ...Object.entries({ location, offset, length }).map(([key, value]) =>
      message(13, [text(1, key), text(2, String(value))])),
    integer(14, 1), // external
  ];
  const value = (name, dims) => [
    text(1, name),
    message(2, [message(1, [integer(1, 1), message(2, dims.map((dim) => message(1, [integer(1, dim)])))])]),
  ];
  const graph = [
    message(1, [text(1, "x"), text(1, "W"), text(2, "xW"), text(4, "MatMul")]),
    message(1, [text(1, "xW"), text(1, "b"), text(2, "y"), text(4, "Add")]),
    text(2, "linear"),
    message(5, external("W", [ROWS, COLUMNS], weights)),
    message(5, external("b", [COLUMNS], bias)),
    message(11, value("x", [1, ROWS])),
    message(12, value("y", [1, COLUMNS])),
  ];
  return joined([integer(1, 8), message(7, graph), message(8, [text(1, ""), integer(2, 13)])]);
}

const joined = (parts) => new Uint8Array(parts.flatMap((part) => Array.from(part)));

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return [...bytes, value];
}

const integer = (field, value) => [...varint(field * 8), ...varint(value)];
const bytes = (field, value) => [...varint(field * 8 + 2), ...varint(value.length), ...value];
const text = (field, value) => bytes(field, new TextEncoder().encode(value));
const message = (field, parts) => bytes(field, joined(parts));

// A file with the weights of a graph, and the graph.
export function serviceWeights() {
  const values = Float32Array.from({ length: (ROWS + 1) * COLUMNS }, (_, at) => Math.sin(at * 12.9898) / 2);
  const weights = { offset: 0, length: ROWS * COLUMNS * 4 };
  const bias = { offset: weights.length, length: COLUMNS * 4 };
  return { file: new Uint8Array(values.buffer), graph: linearGraph("weights", weights, bias) };
}
