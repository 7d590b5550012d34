// @ts-check
// The entry point in Node.js, Deno and Bun: the module, files and the cache are in the file system, and workers are
// threads.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { explainFile, fetchFile } from "./file_fetch.js";
import { folderAt } from "./folder.js";
import { checkCache, folderCache, freeSpace } from "./folder_cache.js";
import { setParts } from "../module/location.js";
import { ThreadWorker } from "./thread.js";

export * from "../weightstream.js";

setParts({
  module: () => readFile(new URL("weightstream_bg.wasm", import.meta.url)),
  worker: (url = new URL("weightstream.node_worker.js", import.meta.url)) => new ThreadWorker(url),
  cache: folderCache,
  checkCache,
  space: freeSpace,
  urlOf: (text, isPath = existsSync(text)) => (isPath ? pathToFileURL(text).href : undefined),
  folderOf: folderAt,
  fetchOf: (url) => (url.startsWith("file:") ? fetchFile : undefined),
  explain: explainFile,
  hold,
});

/**
 * Keeps the process running until the returned function is called. Neither threads nor the timers of idle ones do.
 */
function hold() {
  const timer = setInterval(() => {}, MAX_DELAY_MS);
  return () => clearInterval(timer);
}

/** Longer delays overflow. */
const MAX_DELAY_MS = 2 ** 31 - 1;
