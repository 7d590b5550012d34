// @ts-check
// The script of the workers in Node.js, Deno and Bun.
import "./weightstream.thread_scope.js";
import "./weightstream.worker.js";
import { fetchFile } from "./weightstream.file_fetch.js";
import { folderCache } from "./weightstream.folder_cache.js";
import { setParts } from "./weightstream.location.js";

setParts({
  cache: folderCache,
  fetchOf: (url) => (url.startsWith("file:") ? fetchFile : undefined),
});
