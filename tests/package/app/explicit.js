// For bundlers that do not support `new URL(…, import.meta.url)`: the app passes the URLs of the module and the worker.

import { StreamingLoader, cachedBytes, clearCache, init } from "weightstream";
import module from "weightstream/weightstream_bg.wasm";
import { check } from "./check.js";

globalThis.check = async (url, matrix) => {
  await init({ module: new URL(module, import.meta.url), workerUrl: new URL("worker.js", import.meta.url) });
  return check({ StreamingLoader, cachedBytes, clearCache }, url, matrix);
};
