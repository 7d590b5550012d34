// @ts-check
// Files by path and `file:` URL in Node.js, Deno and Bun.
import { closeSync, createReadStream, openSync, statSync } from "node:fs";
import { open, stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";

/** @import { ErrorFields } from "../module/glue.js" */

const NOT_FOUND = 404;
const CANNOT_BE_READ = 403;

/**
 * Answers a request for a file as a server does that supports Range requests. {@link explainFile} explains its errors.
 *
 * @param {RequestInfo | URL} input
 * @param {RequestInit} [init]
 */
export async function fetchFile(input, init) {
  const { url, headers, signal } = new Request(input, init);
  signal.throwIfAborted();
  const path = fileURLToPath(url);
  let found;
  try {
    found = await stat(path);
    // Deno has access() only with a permission for the system.
    if (found.isFile()) await (await open(path)).close();
  } catch (error) {
    return new Response(null, { status: isMissing(error) ? NOT_FOUND : CANNOT_BE_READ });
  }
  if (!found.isFile()) return new Response(null, { status: CANNOT_BE_READ });

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

/**
 * The error for a file that cannot be read, in place of that for an HTTP status.
 *
 * @param {ErrorFields} fields
 * @returns {ErrorFields}
 */
export function explainFile(fields) {
  const { url, status, ...others } = fields;
  if (fields.code !== "HTTP" || !url?.startsWith("file:")) return fields;
  const path = fileURLToPath(url);
  if (status === NOT_FOUND) {
    const here = process.cwd();
    const advice = path.startsWith(here) ? ` Relative paths start at the current folder, ${here}.` : "";
    return { ...others, url, code: "NOT_FOUND", message: `There is no file at the path ${path}.${advice}` };
  }
  const { what, cause } = unreadable(path);
  return { ...others, url, code: "IO", message: `The path ${path} cannot be read: ${what}.`, cause };
}

/** @param {string} path */
function unreadable(path) {
  try {
    const found = statSync(path);
    if (found.isFile()) closeSync(openSync(path, "r"));
    if (found.isDirectory()) return { what: "it is a folder, and this call takes a file" };
    return { what: found.isFile() ? "it could not be read a moment ago" : "it is not a file" };
  } catch (cause) {
    return { what: /** @type {Error} */ (cause).message, cause };
  }
}

/** @param {any} error */
const isMissing = (error) => error.code === "ENOENT" || error.code === "ENOTDIR";
