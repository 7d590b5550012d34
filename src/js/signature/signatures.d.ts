/**
 * Lets platforms that compile no WebAssembly while they run, such as Cloudflare Workers, verify signatures. On all
 * others the module is loaded when it is needed.
 *
 * ```js
 * import { initSignatures } from "weightstream/signatures";
 * import module from "weightstream/weightstream_signatures.wasm";
 *
 * initSignatures(module);
 * ```
 *
 * @module weightstream/signatures
 */

import type { ModuleSource } from "../weightstream.js";

/** Sets the module that parses signatures: compiled, or what it is compiled from. */
export function initSignatures(module: ModuleSource): void;
