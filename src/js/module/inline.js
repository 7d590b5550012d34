// @ts-check
// The package as one script, without other files: for bundlers that emit neither the WebAssembly module nor the worker,
// and for scripts that are not modules.
import { moduleGzip, workerScript } from "./weightstream.inlined.js";
import * as crossOrigin from "../cache/cross_origin.js";
import { piecesScript } from "../loader/loader.js";
import * as pieces from "../loader/pieces.js";
import { setParts } from "./location.js";
import { startWorker } from "./policy.js";
import { crossOriginScript } from "../source/source.js";

export * from "../weightstream.js";

crossOriginScript.provide(crossOrigin);
piecesScript.provide(pieces);

setParts({ module: unpackedModule, worker: startInlineWorker });

async function unpackedModule() {
  const packed = Uint8Array.from(atob(moduleGzip), (character) => character.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(unpacked).arrayBuffer();
}

/** @type {string | undefined} Never revoked, because workers start workers with it. */
let workerUrl;

/** @param {string | URL} [url] */
function startInlineWorker(url) {
  if (url) return startWorker(url, { type: "module" });
  workerUrl ??= URL.createObjectURL(new Blob([workerScript], { type: "text/javascript" }));
  return startWorker(workerUrl);
}
