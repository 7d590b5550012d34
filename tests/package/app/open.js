// Opens a model: what every app does first.

import { StreamingLoader } from "weightstream";

globalThis.open = (url) => StreamingLoader.open(url);
