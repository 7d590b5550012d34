// The same app, whose sessions keep no copies of the weights in another layout.
import { sessionOptions } from "./onnxruntime.js";

export * from "./onnxruntime_ours.js";

sessionOptions.extra = { session: { disable_prepacking: "1" } };
