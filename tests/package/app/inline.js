// The package as one script, for bundlers that emit neither the WebAssembly module nor the worker.

import { StreamingLoader, cachedBytes } from "weightstream/inline";
import { sha256OfTensor } from "./digest.js";

window.cachedBytes = cachedBytes;
window.sha256OfTensor = (model, name, options) => sha256OfTensor(StreamingLoader.open(model, options), name);
