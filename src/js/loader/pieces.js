// @ts-check
// Tensors in pieces: into buffers of a GPU, and in chunks for the caller. Loaded only for the options `device` and
// `onChunk`, which few pages use.
export { loadInChunks } from "./chunks.js";
export { nextOnGpu } from "../gpu/gpu.js";
