// @ts-check
// Long lists of the module as JavaScript values: they are passed in batches of numbers and joined strings.

/** @import * as Api from "./weightstream.js" */

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
 * here; some of them are lengths of pieces of `names`, or indexes into `strings`.
 *
 * @param {Api.TensorInfo[]} tensors
 * @param {string} names
 * @param {Float64Array} numbers
 * @param {string[]} strings
 * @param {Record<string, unknown>[]} attributesOfSome
 */
export function addTensors(tensors, names, numbers, strings, attributesOfSome) {
  let at = 0;
  let nameAt = 0;
  let attributesAt = 0;
  while (at < numbers.length) {
    const name = names.slice(nameAt, (nameAt += numbers[at++]));
    const dtype = /** @type {Api.Dtype} */ (strings[numbers[at++]]);
    const shape = new Array(numbers[at++]); // `push` to an empty array would allocate 17 elements
    for (let i = 0; i < shape.length; i++) shape[i] = numbers[at++];
    const layout = /** @type {Api.Layout} */ (strings[numbers[at++]]);
    const byteLength = length();
    const shard = numbers[at++];
    const components = new Array(numbers[at++]);
    for (let i = 0; i < components.length; i++) components[i] = component();
    const attributes = numbers[at++] ? attributesOfSome[attributesAt++] : {};
    tensors.push({ name, dtype, shape, layout, byteLength, shard, components, attributes });
  }

  function component() {
    const role = strings[numbers[at++]];
    const dtype = strings[numbers[at++]];
    return { role, dtype, byteLength: length(), storedByteLength: numbers[at++], encoding: strings[numbers[at++]] };
  }

  function length() {
    const number = numbers[at++];
    return Number.isNaN(number) ? undefined : number;
  }
}
