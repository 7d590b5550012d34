// @ts-check
// What loaded tensors can do. Their fields are set by the module.

/** @import * as Api from "../weightstream.js" */

/**
 * @this {Api.Tensor<any>}
 * @param {Api.Dtype} dtype
 */
function is(dtype) {
  return this.layout === "dense" && this.dtype === dtype;
}

const METHODS = Object.create(Object.prototype, { is: { value: is } });

/**
 * Gives a tensor its methods. They are not properties of its own, so that it can still be cloned and posted.
 *
 * @template {object | undefined} T
 * @param {T} tensor
 * @returns {T}
 */
export const withMethods = (tensor) => tensor && Object.setPrototypeOf(tensor, METHODS);
