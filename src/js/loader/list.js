// @ts-check
// Long lists of the module as JavaScript values: they are passed in batches of numbers and joined strings.

/** @import * as Api from "../weightstream.js" */
/** @typedef {Omit<Api.TensorInfo, "name" | "shard" | "file" | "offset" | "digest" | "attributes">} Kind */

/** How many kinds of tensors a batch numbers, as in `src/js/list.rs`. */
const MAX_KINDS = 32;

/** The attributes of most tensors. */
const NO_ATTRIBUTES = Object.freeze({});

/**
 * Fills `array` from index `start` on with numbers, or with the pieces of a text, of which `numbers` are the lengths.
 *
 * @param {unknown[]} array
 * @param {number} start
 * @param {ArrayLike<number>} numbers
 * @param {string} [text]
 */
export function addItems(array, start, numbers, text) {
  let at = 0;
  for (let i = 0; i < numbers.length; i++) {
    array[start + i] = text === undefined ? numbers[i] : text.slice(at, (at += numbers[i] ?? 0));
  }
}

/**
 * Adds a `TensorInfo` for each tensor of a batch. `src/js/list.rs` writes `numbers` in the order in which they are read
 * here; some of them are lengths of pieces of `texts`, or indexes into `strings`. Tensors of the same kind share their
 * components, which are frozen. Their `file` is set by `addFiles`.
 *
 * @param {Api.TensorInfo[]} tensors
 * @param {string} texts
 * @param {Float64Array} numbers
 * @param {string[]} strings
 * @param {Record<string, unknown>[]} attributesOfSome
 */
export function addTensors(tensors, texts, numbers, strings, attributesOfSome) {
  let at = 0;
  let textAt = 0;
  let attributesAt = 0;
  const kinds = /** @type {Kind[]} */ ([]);
  while (at < numbers.length) {
    const name = text();
    const shard = numbers[at++];
    const attributes = numbers[at++] ? attributesOfSome[attributesAt++] : NO_ATTRIBUTES;
    const offset = numbers[at++];
    const digest = /** @type {Api.TensorInfo["digest"]} */ (text() || undefined);
    const { dtype, shape, layout, parameterCount, byteLength, components } = kinds[numbers[at++]] ?? newKind();
    tensors.push({
      name,
      dtype,
      shape: shape.slice(),
      layout,
      parameterCount,
      byteLength,
      shard,
      file: "",
      offset,
      digest,
      components,
      attributes,
      ...(layout === "quantized" && { quantization: /** @type {any} */ (attributes)["quantization"] }),
    });
  }

  function text() {
    return texts.slice(textAt, (textAt += numbers[at++]));
  }

  /** @returns {Kind} */
  function newKind() {
    const dtype = /** @type {Api.Dtype} */ (strings[numbers[at++]]);
    const shape = list(() => numbers[at++]);
    const layout = /** @type {Api.Layout} */ (strings[numbers[at++]]);
    const parameterCount = shape.reduce((product, dim) => product * dim, 1);
    const byteLength = length();
    const kind = { dtype, shape, layout, parameterCount, byteLength, components: Object.freeze(list(component)) };
    if (kinds.length < MAX_KINDS) kinds.push(kind);
    return kind;
  }

  /** @returns {Api.ComponentInfo} */
  function component() {
    const role = strings[numbers[at++]];
    const dtype = /** @type {Api.Dtype} */ (strings[numbers[at++]]);
    const lengths = { byteLength: length(), storedByteLength: numbers[at++] };
    return Object.freeze({ role, dtype, ...lengths, encoding: strings[numbers[at++]] });
  }

  /**
   * @template T
   * @param {() => T} item
   * @returns {T[]}
   */
  function list(item) {
    return Array.from({ length: numbers[at++] }, item);
  }

  function length() {
    const number = numbers[at++];
    return Number.isNaN(number) ? undefined : number;
  }
}

/**
 * Sets the file of each tensor.
 *
 * @param {Api.TensorInfo[]} tensors
 * @param {string[]} files By their index in the model.
 */
export function addFiles(tensors, files) {
  for (const tensor of tensors) /** @type {{ file: string }} */ (tensor).file = files[tensor.shard] ?? "";
}
