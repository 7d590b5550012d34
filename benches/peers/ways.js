// The functions that `cargo xtask bench --peers` compares with weightstream. Each library loads the same bytes in the
// way that its users load them. `pieces` returns the bytes of the tensors in order, `skip` bytes of a header before
// them.
import { gguf } from "./node_modules/@huggingface/gguf/dist/browser/index.mjs"; // its build for pages
import { io } from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-cpu"; // tensors need a backend, and this one stores them unchanged
import { CacheManager } from "@wllama/wllama";
import { ZSTDDecoder } from "zstddec";
// The package exports no function to load a file: this is what its models and tokenizers use.
import { env } from "./node_modules/@huggingface/transformers/src/env.js";
import { getModelFile } from "./node_modules/@huggingface/transformers/src/utils/hub.js";

env.allowLocalModels = false;
env.remoteHost = `${location.origin}/`;
env.remotePathTemplate = "{model}/";

const zstd = new ZSTDDecoder();
await zstd.init();

const wllama = new CacheManager();

export const ways = {
  async transformers({ model, file, cache, skip }) {
    env.useBrowserCache = cache;
    const bytes = await getModelFile(model, file);
    return { kept: bytes, pieces: () => [bytes], skip };
  },

  async wllama({ url, skip }) {
    const absolute = new URL(url, location.href).href;
    await wllama.download(absolute);
    const bytes = new Uint8Array(await (await wllama.open(absolute)).arrayBuffer());
    return { kept: bytes, pieces: () => [bytes], skip };
  },

  async tfjs({ folder, manifest }) {
    const kept = Object.values(await io.loadWeights(manifest, folder));
    const count = kept.reduce((sum, { size }) => sum + 4 * size, 0); // all F32
    return { kept, count, pieces: () => kept.map((tensor) => tensor.dataSync()) };
  },

  async gguf({ url }) {
    const kept = await gguf(new URL(url, location.href).href);
    return { kept, count: kept.metadata["tokenizer.ggml.tokens"].length };
  },

  // Fetches the whole file, because the package cannot read parts of a file, and decodes one frame for each tensor.
  async zstddec({ url, frames }) {
    const file = new Uint8Array(await (await fetch(url, { cache: "no-store" })).arrayBuffer());
    const kept = frames.map(([start, end, decodedLength]) => zstd.decode(file.subarray(start, end), decodedLength));
    return { kept, count: kept.reduce((sum, { byteLength }) => sum + byteLength, 0), pieces: () => kept };
  },
};

// Clears the cache of a library, so that the next load is its first.
export const forget = {
  transformers: () => caches.delete(env.cacheKey),
  wllama: () => wllama.clear(),
};
