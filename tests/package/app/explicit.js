// For bundlers that do not look into `new URL(…, import.meta.url)`: the app names the module itself, and bundles the
// worker that keeps files as an entry point of its own.

import { StreamingLoader, cachedBytes, init } from "weightstream";
import module from "weightstream/weightstream_bg.wasm";
import { sha256OfTensor } from "./digest.js";

window.cachedBytes = cachedBytes;
window.sha256OfTensor = async (model, name, options) => {
  await init(new URL(module, import.meta.url));
  return sha256OfTensor(StreamingLoader.open(model, options), name);
};
