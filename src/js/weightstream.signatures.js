// @ts-check
// `weightstream/signatures`: for platforms that compile no WebAssembly while they run, such as Cloudflare Workers.
import { invalidValue } from "./weightstream.check.js";
import { moduleSource } from "./weightstream.signature.js";

/** @import * as Api from "./weightstream.signatures.js" */

/** @type {typeof Api.initSignatures} */
export function initSignatures(module) {
  if (module === undefined || module === null) {
    throw invalidValue("module", module, "weightstream/weightstream_signatures.wasm");
  }
  moduleSource.given = module;
}
