// A worker: the one that keeps files in the origin private file system, or one of those that decode and digest. The page
// sends it the module that it runs itself.
import { initSync, serveCache, serveJobs } from "./weightstream_glue.js";

globalThis.onmessage = ({ data: [module, role] }) => {
  initSync({ module });
  role === "cache" ? serveCache() : serveJobs();
};
