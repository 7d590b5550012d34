// @ts-check
// The entry point in Node.js, Deno and Bun: the module, files and the cache are in the file system.
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";
import { folderCache } from "./weightstream.folder_cache.js";
import { setParts } from "./weightstream.location.js";

export * from "./weightstream.js";

setParts({
  module: () => readFile(new URL("weightstream_bg.wasm", import.meta.url)),
  cache: folderCache,
  urlOf: (text) => (/^[a-z][a-z\d+.-]+:/i.test(text) ? undefined : pathToFileURL(text).href),
  fetchOf: (url) => (url.startsWith("file:") ? fetchFile : undefined),
});

/**
 * Answers a request for a file as a server does that supports Range requests.
 *
 * @param {RequestInfo | URL} input
 * @param {RequestInit} [init]
 */
async function fetchFile(input, init) {
  const { url, headers, signal } = new Request(input, init);
  signal.throwIfAborted();
  const path = fileURLToPath(url);
  const found = await stat(path).catch((error) => {
    if (error.code !== "ENOENT" && error.code !== "ENOTDIR") throw error;
  });
  if (!found?.isFile()) return new Response(null, { status: 404 });

  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(headers.get("range") ?? "") ?? [];
  const start = Number(first ?? 0);
  const end = Math.min(last ? Number(last) + 1 : found.size, found.size);
  if (first && start >= found.size) {
    return new Response(null, { status: 416, headers: { "Content-Range": `bytes */${found.size}` } });
  }
  /** @type {Record<string, string>} */
  const sent = { ETag: `"${found.mtimeMs}-${found.size}"`, "Content-Length": String(end - start) };
  if (first) sent["Content-Range"] = `bytes ${start}-${end - 1}/${found.size}`;
  const body = end > start ? createReadStream(path, { start, end: end - 1, highWaterMark: 1 << 20, signal }) : null;
  const stream = body && /** @type {any} */ (Readable.toWeb(body));
  return new Response(stream, { status: first ? 206 : 200, headers: sent });
}
