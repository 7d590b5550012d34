// @ts-check
// `weightstream/signatures`: for platforms that compile no WebAssembly while they run, such as Cloudflare Workers.
import { invalidValue } from "../options/check.js";
import { moduleSource } from "./signature.js";

/** @import * as Api from "./signatures.js" */

/** @type {typeof Api.initSignatures} */
export function initSignatures(module) {
  if (module === undefined || module === null) {
    throw invalidValue("module", module, "weightstream/weightstream_signatures.wasm");
  }
  moduleSource.given = module;
}
