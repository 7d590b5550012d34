// A TFLite model, as a FlatBuffer: y = x W + b. The numbers are those of the fields in schema.fbs of LiteRT.
import * as flatbuffers from "flatbuffers";
import { COLUMNS, ROWS } from "./graph.js";

const VERSION = 3;
const FULLY_CONNECTED = 9;
const FULLY_CONNECTED_OPTIONS = 8;
const FLOAT32 = 0;

// `weights` has a row for each output, unlike that of an ONNX graph.
export function linearModel(weights, bias) {
  const builder = new flatbuffers.Builder(weights.byteLength + bias.byteLength + 4096);
  const table = (fields) => {
    builder.startObject(16);
    for (const [number, add] of Object.entries(fields)) add(Number(number));
    return builder.endObject();
  };
  const offset = (value) => (field) => builder.addFieldOffset(field, value, 0);
  const byte = (value) => (field) => builder.addFieldInt8(field, value, undefined);
  const int = (value) => (field) => builder.addFieldInt32(field, value, undefined);
  const ints = (values) => {
    builder.startVector(4, values.length, 4);
    for (const value of [...values].reverse()) builder.addInt32(value);
    return builder.endVector();
  };
  const offsets = (values) => {
    builder.startVector(4, values.length, 4);
    for (const value of [...values].reverse()) builder.addOffset(value);
    return builder.endVector();
  };
  // The runtime reads numbers in place, at multiples of 16.
  const data = (values) => {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    builder.startVector(1, bytes.length, 16);
    builder.bb.setPosition((builder.space -= bytes.length));
    builder.bb.bytes().set(bytes, builder.space);
    return builder.endVector();
  };

  const buffers = offsets([table({}), table({ 0: offset(data(weights)) }), table({ 0: offset(data(bias)) })]);
  const tensor = (name, shape, buffer) => {
    const [text, dims] = [builder.createString(name), ints(shape)];
    return table({ 0: offset(dims), 1: byte(FLOAT32), 2: int(buffer), 3: offset(text) });
  };
  const tensors = offsets([
    tensor("x", [1, ROWS], 0), tensor("W", [COLUMNS, ROWS], 1), tensor("b", [COLUMNS], 2),
    tensor("y", [1, COLUMNS], 0),
  ]);
  const [inputs, outputs, options] = [ints([0, 1, 2]), ints([3]), table({ 0: byte(0) })];
  const operator = table({
    0: int(0), 1: offset(inputs), 2: offset(outputs), 3: byte(FULLY_CONNECTED_OPTIONS), 4: offset(options),
  });
  const [ofGraph, result, operators] = [ints([0]), ints([3]), offsets([operator])];
  const graph = table({ 0: offset(tensors), 1: offset(ofGraph), 2: offset(result), 3: offset(operators) });
  const codes = offsets([table({ 0: byte(FULLY_CONNECTED), 2: int(1), 3: int(FULLY_CONNECTED) })]);
  const graphs = offsets([graph]);
  builder.finish(table({ 0: int(VERSION), 1: offset(codes), 2: offset(graphs), 4: offset(buffers) }), "TFL3");
  return builder.asUint8Array().slice();
}
