/**
 * The script of the workers, for bundlers and servers that need its URL: see `InitOptions.workerUrl`. It exports
 * nothing.
 */
export {};
