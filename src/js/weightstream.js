// @ts-check
// The public API of the package, which weightstream.d.ts documents. The scripts check options; the WebAssembly module
// does the work.
export { cachedBytes, cachedModels, clearCache, deleteCached, listCached } from "./cache/cached.js";
export { willFit } from "./cache/fit.js";
export { RemoteFile, openFile } from "./file/file.js";
export { LoadError } from "./loader/error.js";
export { StreamingLoader } from "./loader/loader.js";
export { combineProgress } from "./loader/progress.js";
export { init } from "./module/offline.js";
