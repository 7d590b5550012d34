// @ts-check
// The script of the workers in Node.js, Deno and Bun.
import "./thread_scope.js";
import "../worker/worker.js";
import { fetchFile } from "./file_fetch.js";
import { folderCache } from "./folder_cache.js";
import { setParts } from "../module/location.js";

setParts({
  cache: folderCache,
  fetchOf: (url) => (url.startsWith("file:") ? fetchFile : undefined),
});
