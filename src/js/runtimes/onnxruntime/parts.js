// @ts-check
// The parts of a graph that `weightstream convert --by-layer` has marked. Each becomes a graph of its own. The numbers
// are those of the fields in onnx.proto.
import { fail, invalid } from "../../loader/error.js";
import { joined } from "../../request/response.js";
import { EXTERNAL_DATA, MAX_DEPTH, MESSAGES, externalData, rangeOf } from "./graph.js";
import { decoded, encoded, entryOf, field, fields, malformed } from "./protobuf.js";

/** @import { Range } from "./ranges.js" */
/** @typedef {Uint8Array<ArrayBuffer>} Bytes */

/** The key of the mark in the metadata of the model. */
const MARK = "weightstream.parts";

const MODEL = { graph: 7, metadata: 14, training: 20 };
const GRAPH = { node: 1, name: 2, initializer: 5, input: 11, output: 12, value: 13 };
/** A TypeProto is in a value, the type of a tensor in that. Of the latter, the first field is the type of elements. */
const VALUE = { name: 1, type: 2 };
const TYPE = { tensor: 1 };
const ELEMENT_TYPE = 1;
const NAME_OF_INITIALIZER = 8;

/** `convert` writes at most 16 parts. A damaged list must not take the memory of the page. */
const MAX_PARTS = 64;

/**
 * Bytes of the weights, and where they are in the file of a part.
 *
 * @typedef {{ start: number, end: number, at: number }} Segment
 */

/**
 * A part. Its graph refers to a file that has the segments one after another.
 *
 * @typedef {{ graph: Bytes, segments: Segment[], inputs: string[], outputs: string[] }} Part
 */

/**
 * The parts of a graph. `weights` is the name of the file with its weights, `location` what the graph calls it.
 *
 * @typedef {object} Parts
 * @property {string} weights
 * @property {string} location
 * @property {Part[]} parts
 * @property {string[]} inputs
 * @property {string[]} outputs
 */

/**
 * @param {Bytes} model
 * @returns {Parts}
 */
export function partsOf(model) {
  const modelFields = [...fields(model)];
  const mark = markOf(modelFields);
  const graph = modelFields.find(({ number }) => number === MODEL.graph)?.content;
  if (!graph) throw malformed();
  const graphFields = [...fields(graph)];
  const ofNumber = (/** @type {number} */ wanted) =>
    graphFields.flatMap(({ number, content }) => (number === wanted && content ? [content] : []));
  const inputs = ofNumber(GRAPH.input);
  const outputs = ofNumber(GRAPH.output);
  const types = new Map([...ofNumber(GRAPH.value), ...outputs, ...inputs].map((value) => [nameIn(value), value]));
  const nodes = ofNumber(GRAPH.node);
  const initializers = ofNumber(GRAPH.initializer);
  const typeOf = (/** @type {string} */ name) => types.get(name) ?? missing(`the type of "${name}"`);
  const given = new Set(inputs.map((input) => nameIn(input)));
  const names = graphFields.filter(({ number }) => number === GRAPH.name).map(({ whole }) => whole);
  const isCopied = (/** @type {number} */ number) => !Object.values(MODEL).includes(number);
  const copied = modelFields.filter(({ number }) => isCopied(number)).map(({ whole }) => whole);
  checkOrder(mark.parts, given, outputs.map((output) => nameIn(output)));
  const places = new Places();
  const parts = mark.parts.map((part) => {
    const content = [
      ...chosen(nodes, part.nodes, "node"),
      ...chosen(initializers, part.initializers, "tensor"),
    ];
    const segments = places.segmentsOf(content);
    const typed = (/** @type {string[]} */ names, /** @type {number} */ number) =>
      names.flatMap((name) => field(number, given.has(name) ? [typeOf(name)] : withoutShape(typeOf(name))));
    const own = [
      ...names, ...typed(part.inputs, GRAPH.input), ...typed(part.outputs, GRAPH.output),
      ...content.flatMap(({ message, bytes }) => field(message === "node" ? GRAPH.node : GRAPH.initializer,
        relocated(message, bytes, segments, 0))),
    ];
    const graph = joined([...copied, ...field(MODEL.graph, own)]);
    return { graph, segments, inputs: part.inputs, outputs: part.outputs };
  });
  const isInitializer = new Set(initializers.map((tensor) => nameIn(tensor, NAME_OF_INITIALIZER)));
  return {
    weights: mark.weights,
    location: places.location,
    parts,
    inputs: inputs.map((input) => nameIn(input)).filter((name) => !isInitializer.has(name)),
    outputs: outputs.map((output) => nameIn(output)),
  };
}

/**
 * @typedef {{ nodes: Range[], initializers: Range[], inputs: string[], outputs: string[] }} MarkedPart
 */

/**
 * @param {import("./protobuf.js").Field[]} modelFields
 * @returns {{ weights: string, parts: MarkedPart[] }}
 */
function markOf(modelFields) {
  for (const { number, content } of modelFields) {
    if (number !== MODEL.metadata || !content) continue;
    const [key, value] = entryOf(content);
    if (key !== MARK) continue;
    const mark = parsed(value);
    return isMark(mark) ? mark : missing("a valid list of its parts");
  }
  throw invalid("`graph` has no parts: write it with `weightstream convert model.onnx out/ --by-layer`");
}

/**
 * Checks that each part needs only inputs of the graph and what earlier parts compute, which nothing computes twice.
 *
 * @param {MarkedPart[]} parts
 * @param {Set<string>} inputs
 * @param {string[]} wanted The outputs of the graph.
 */
function checkOrder(parts, inputs, wanted) {
  const known = new Set(inputs);
  for (const { inputs, outputs } of parts) {
    const unknown = inputs.find((name) => !known.has(name)) ?? outputs.find((name) => known.has(name));
    if (unknown !== undefined) missing(`where "${unknown}" is computed`);
    for (const name of outputs) known.add(name);
  }
  const absent = wanted.find((name) => !known.has(name));
  if (absent !== undefined) missing(`which part computes "${absent}"`);
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * @param {any} mark
 * @returns {boolean}
 */
function isMark(mark) {
  const isNames = (/** @type {any} */ list) => Array.isArray(list) && list.every((name) => typeof name === "string");
  const isRange = (/** @type {any} */ range) =>
    Array.isArray(range) && range.length === 2 && range.every(Number.isSafeInteger) && range[0] >= 0 &&
    range[0] <= range[1];
  const isRanges = (/** @type {any} */ list) =>
    Array.isArray(list) && list.every((range, at) => isRange(range) && (at === 0 || list[at - 1][1] < range[0]));
  const isPart = (/** @type {any} */ part) =>
    isRanges(part?.nodes) && isRanges(part.initializers) && isNames(part.inputs) && isNames(part.outputs) &&
    part.outputs.length > 0;
  if (typeof mark?.weights !== "string" || !Array.isArray(mark.parts)) return false;
  return mark.parts.length > 0 && mark.parts.length <= MAX_PARTS && mark.parts.every(isPart);
}

/**
 * A node or an initializer of a part.
 *
 * @typedef {{ message: "node" | "tensor", bytes: Bytes }} Content
 */

/**
 * The messages with these numbers.
 *
 * @param {Bytes[]} messages
 * @param {Range[]} ranges
 * @param {Content["message"]} message
 * @returns {Content[]}
 */
function chosen(messages, ranges, message) {
  return ranges.flatMap(([start, end]) => {
    if (end > messages.length) throw missing("a node or an initializer of a part");
    return messages.slice(start, end).map((bytes) => ({ message, bytes }));
  });
}

/** The places of weights. All are in one file. */
class Places {
  location = "";

  /**
   * The bytes that tensors refer to, in the order of the file. None is there twice.
   *
   * @param {Content[]} content
   * @returns {Segment[]}
   */
  segmentsOf(content) {
    /** @type {Range[]} */
    const ranges = [];
    for (const { message, bytes } of content) this.#collect(message, bytes, ranges, 0);
    ranges.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    /** @type {Segment[]} */
    const segments = [];
    for (const [start, end] of ranges) {
      const last = segments[segments.length - 1];
      if (last && start <= last.end) last.end = Math.max(last.end, end);
      else segments.push({ start, end, at: last ? last.at + last.end - last.start : 0 });
    }
    return segments;
  }

  /**
   * @param {string} message
   * @param {Bytes} bytes
   * @param {Range[]} ranges
   * @param {number} depth
   */
  #collect(message, bytes, ranges, depth) {
    if (depth > MAX_DEPTH) throw malformed();
    if (message === "tensor") {
      const place = externalData(bytes);
      const location = place.get("location");
      if (location === undefined) return;
      const [range] = rangeOf(place);
      if (!range || range[1] === Infinity) throw missing("the length of a weight");
      if (this.location && this.location !== location) throw invalid("the weights of `graph` are in several files");
      this.location = location;
      ranges.push(range);
      return;
    }
    for (const { number, content } of fields(bytes)) {
      const inner = MESSAGES[message]?.[number];
      if (inner && content) this.#collect(inner, content, ranges, depth + 1);
    }
  }
}

/**
 * A message whose tensors refer to the file of their part.
 *
 * @param {string} message
 * @param {Bytes} bytes
 * @param {Segment[]} segments
 * @param {number} depth
 * @returns {Bytes[]}
 */
function relocated(message, bytes, segments, depth) {
  if (message === "tensor") return relocatedTensor(bytes, segments);
  if (depth > MAX_DEPTH) throw malformed();
  return [...fields(bytes)].flatMap(({ number, content, whole }) => {
    const inner = MESSAGES[message]?.[number];
    return inner && content ? field(number, relocated(inner, content, segments, depth + 1)) : [whole];
  });
}

/**
 * @param {Bytes} tensor
 * @param {Segment[]} segments
 * @returns {Bytes[]}
 */
function relocatedTensor(tensor, segments) {
  const place = externalData(tensor);
  const [range] = place.has("location") ? rangeOf(place) : [];
  const segment = range && segments.find(({ start, end }) => start <= range[0] && range[0] <= end);
  if (!segment) return [tensor];
  place.set("offset", `${range[0] - segment.start + segment.at}`);
  const entries = [...place].flatMap(([key, value]) =>
    field(EXTERNAL_DATA, [...field(1, [encoded(key)]), ...field(2, [encoded(value)])]));
  const others = [...fields(tensor)].filter(({ number }) => number !== EXTERNAL_DATA).map(({ whole }) => whole);
  return [...others, ...entries];
}

/**
 * @param {Bytes} message
 * @param {number} [number]
 */
function nameIn(message, number = VALUE.name) {
  const content = [...fields(message)].find((field) => field.number === number)?.content;
  return content ? decoded(content) : "";
}

/**
 * A value without its shape, which may be that of the inputs with which the graph was made. ONNX Runtime refuses other
 * shapes of inputs.
 *
 * @param {Bytes} value
 * @returns {Bytes[]}
 */
function withoutShape(value) {
  /** @type {(bytes: Bytes, number: number, change: (content: Bytes) => Bytes[]) => Bytes[]} */
  const changed = (bytes, number, change) => [...fields(bytes)].flatMap((each) =>
    each.number === number && each.content ? field(number, change(each.content)) : [each.whole]);
  const elements = (/** @type {Bytes} */ tensor) =>
    [...fields(tensor)].filter(({ number }) => number === ELEMENT_TYPE).map(({ whole }) => whole);
  return changed(value, VALUE.type, (type) => changed(type, TYPE.tensor, elements));
}

/**
 * @param {string} what
 * @returns {never}
 */
function missing(what) {
  throw fail({ code: "FORMAT", message: `\`graph\` is damaged: it does not state ${what}.` });
}
