// The usual way: the package finds its module by itself, and the bundler emits it as an asset.

import { StreamingLoader } from "weightstream";
import { sha256OfTensor } from "./digest.js";

window.sha256OfTensor = (model, name) => sha256OfTensor(StreamingLoader.open(model), name);
