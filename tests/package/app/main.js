// The usual way: the package finds its WebAssembly module, and the bundler emits it as an asset.

import { StreamingLoader, cachedBytes, clearCache } from "weightstream";
import { check } from "./check.js";

globalThis.check = (url, matrix) => check({ StreamingLoader, cachedBytes, clearCache }, url, matrix);
