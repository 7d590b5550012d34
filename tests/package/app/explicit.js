// For bundlers that do not support `new URL(…, import.meta.url)`: the app passes the URL of the module, and bundles
// the worker as a separate entry point.

import { StreamingLoader, cachedBytes, init } from "weightstream";
import module from "weightstream/weightstream_bg.wasm";
import { sha256OfTensor } from "./digest.js";

window.cachedBytes = cachedBytes;
window.sha256OfTensor = async (model, name, options) => {
  await init(new URL(module, import.meta.url));
  return sha256OfTensor(StreamingLoader.open(model, options), name);
};
