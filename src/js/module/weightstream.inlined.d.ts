// The build writes weightstream.inlined.js.

/** The WebAssembly module, compressed with gzip, in Base64. */
export const moduleGzip: string;
/** The script of the workers. */
export const workerScript: string;
