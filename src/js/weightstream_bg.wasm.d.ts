/**
 * The URL of the WebAssembly module, as the import of a file gives it with bundlers that copy such files to their
 * output. Pass it to `init`.
 */
declare const url: string;
export default url;
