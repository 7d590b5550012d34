// Without an import map, which a Content-Security-Policy may forbid.

import { StreamingLoader, cachedBytes, clearCache } from "../node_modules/weightstream/weightstream.js";
import { check } from "./check.js";

globalThis.check = (url, matrix) => check({ StreamingLoader, cachedBytes, clearCache }, url, matrix);
