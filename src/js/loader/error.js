// @ts-check
// The error class of the package, and the functions that create errors.
import { explained } from "../module/location.js";

/** @import * as Api from "../weightstream.js" */
/** @import { ErrorFields } from "../module/glue.js" */

/** Only code with this symbol can call the constructors of the package's classes. The package does not export it. */
export const MAKE = Symbol("make");

/** @implements {Api.LoadError} */
export class LoadError extends Error {
  /**
   * @param {symbol} make
   * @param {ErrorFields} fields
   */
  constructor(make, { message, code, url, tensor, range, status, cause }) {
    if (make !== MAKE) throw new TypeError("LoadError has no public constructor.");
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.url = url;
    this.tensor = tensor;
    this.range = range;
    this.status = status;
  }

  /** @returns {"LoadError"} */
  // @ts-ignore TS2611: a getter keeps the name out of the error's own properties, as in the errors of the platform.
  get name() {
    return "LoadError";
  }
}

/** @param {ErrorFields} fields */
export const fail = (fields) => new LoadError(MAKE, explained(fields));

/** The error of calls of a loader that is closed. */
export const closedLoader = () => fail({ code: "CLOSED", message: "the loader is closed. Open a new loader." });

/**
 * The error of an invalid call.
 *
 * @param {string} what What is invalid, without a full stop; or with a suggestion that ends with a question mark.
 * @param {unknown} [cause]
 */
export const invalid = (what, cause) =>
  fail({ code: "INVALID_ARGUMENT", message: `${what}${what.endsWith("?") ? "" : "."}`, cause });
