// The usual way: the package finds its WebAssembly module, and the bundler emits it as an asset.

import { StreamingLoader, cachedBytes } from "weightstream";
import { sha256OfTensor } from "./digest.js";

window.cachedBytes = cachedBytes;
window.sha256OfTensor = (model, name, options) => sha256OfTensor(StreamingLoader.open(model, options), name);
