/**
 * The interface of `weightstream`, with the WebAssembly module and the worker inside the script: nothing else is
 * fetched, and no bundler needs a setting. The script is larger, and is read before anything is loaded: use
 * `weightstream` where a bundler supports `new URL("…", import.meta.url)`.
 *
 * A page with a Content-Security-Policy has to allow `worker-src blob:`; without it, loads run on the page.
 *
 * @module weightstream/inline
 */
export * from "../weightstream.js";
