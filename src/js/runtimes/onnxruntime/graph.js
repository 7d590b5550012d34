// @ts-check
// Which bytes of external data an ONNX graph refers to. The numbers are those of the fields in onnx.proto.
import { entryOf, fields, malformed } from "./protobuf.js";

/** @import { Range } from "./ranges.js" */

/**
 * For each message that is read, the message in its fields. Other fields are skipped.
 *
 * @type {Record<string, Record<number, string>>}
 */
export const MESSAGES = {
  model: { 7: "graph" },
  graph: { 1: "node", 5: "tensor", 15: "sparse" },
  node: { 5: "attribute" },
  attribute: { 5: "tensor", 6: "graph", 10: "tensor", 11: "graph" },
  sparse: { 1: "tensor", 2: "tensor" },
};

/** The field of a tensor with its place in a file: pairs of texts with the fields 1 and 2. */
export const EXTERNAL_DATA = 13;

/** Graphs in attributes of nodes, such as the branches of `If`, have nodes of their own. */
export const MAX_DEPTH = 64;

/**
 * The ranges of the file at `path` that the graph refers to, in the order of the graph.
 *
 * @param {Uint8Array<ArrayBuffer>} graph A `ModelProto`.
 * @param {string} path
 * @returns {Range[]}
 */
export function externalRanges(graph, path) {
  /** @type {Range[]} */
  const ranges = [];

  /**
   * @param {string} message
   * @param {Uint8Array<ArrayBuffer>} bytes
   * @param {number} depth
   */
  function visit(message, bytes, depth) {
    if (message === "tensor") return void ranges.push(...placeOf(bytes, path));
    if (depth > MAX_DEPTH) throw malformed();
    for (const { number, content } of fields(bytes)) {
      const inner = MESSAGES[message]?.[number];
      if (inner && content) visit(inner, content, depth + 1);
    }
  }

  visit("model", graph, 0);
  return ranges;
}

/**
 * The range of a tensor in the file at `path`, if it is there. The end is infinite if the graph does not state the
 * length.
 *
 * @param {Uint8Array<ArrayBuffer>} tensor
 * @param {string} path
 * @returns {Range[]}
 */
function placeOf(tensor, path) {
  const place = externalData(tensor);
  const normalized = (/** @type {string | undefined} */ location) => location?.replace(/^\.\//, "");
  if (place.size === 0 || normalized(place.get("location")) !== normalized(path)) return [];
  return rangeOf(place);
}

/**
 * The entries of a tensor about its place in another file. None, if it is in the graph.
 *
 * @param {Uint8Array<ArrayBuffer>} tensor
 */
export function externalData(tensor) {
  /** @type {Map<string, string>} */
  const place = new Map();
  for (const { number, content } of fields(tensor)) {
    if (number === EXTERNAL_DATA && content) place.set(...entryOf(content));
  }
  return place;
}

/**
 * @param {Map<string, string>} place
 * @returns {Range[]} One, or none if ONNX Runtime refuses the numbers.
 */
export function rangeOf(place) {
  const numbers = [place.get("offset") ?? "0", place.get("length") ?? "0"];
  if (!numbers.every((text) => /^\d+$/.test(text))) return [];
  const [start = 0, length = 0] = numbers.map(Number);
  const end = place.has("length") ? start + length : Infinity;
  return Number.isSafeInteger(start) && (Number.isSafeInteger(end) || end === Infinity) ? [[start, end]] : [];
}
