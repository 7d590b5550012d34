// The worker that keeps files in the origin private file system. The page sends it the module that it runs itself.
import { initSync, serveCache } from "./weightstream_glue.js";

globalThis.onmessage = ({ data: module }) => {
  initSync({ module });
  serveCache();
};
