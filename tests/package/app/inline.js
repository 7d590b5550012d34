// The package as one script, for bundlers that emit neither the WebAssembly module nor the worker.

import { StreamingLoader, cachedBytes, clearCache } from "weightstream/inline";
import { check } from "./check.js";

globalThis.check = (url, matrix) => check({ StreamingLoader, cachedBytes, clearCache }, url, matrix);
