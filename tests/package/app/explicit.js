// For bundlers that do not support `new URL(…, import.meta.url)`: the app passes the URLs of the module and the worker.

import { StreamingLoader, cachedBytes, init } from "weightstream";
import module from "weightstream/weightstream_bg.wasm";
import { sha256OfTensor } from "./digest.js";

window.cachedBytes = cachedBytes;
window.sha256OfTensor = async (model, name, options) => {
  await init({ module: new URL(module, import.meta.url), workerUrl: new URL("worker.js", import.meta.url) });
  return sha256OfTensor(StreamingLoader.open(model, options), name);
};
