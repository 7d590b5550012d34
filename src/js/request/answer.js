// @ts-check
// The responses of a `fetch` of the package, as the server's own would be.
import { within } from "./request.js";
import { asSeen, responseOf } from "./response.js";
import { closing } from "../file/stream.js";

/** @import { RemoteFile } from "../weightstream.js" */
/** @import { Head } from "./exchange.js" */
/** @import { rangeOf } from "./request.js" */

/**
 * An open file, and what the server has said about it: nothing if it is cached and the server cannot be reached.
 *
 * @typedef {{ file: RemoteFile, head: Head | undefined, url: string }} Opened
 */

/**
 * The response with a range, or with the whole file; undefined if the file has no such bytes. It closes the file.
 *
 * @param {Opened} opened
 * @param {ReturnType<typeof rangeOf>} range
 * @param {AbortSignal | null | undefined} signal
 */
export function answer(opened, range, signal) {
  const { file } = opened;
  const { byteLength } = file;
  if (range && byteLength === undefined && range.end === undefined) return undefined;
  const [start, end] = range ? within(range, byteLength) : [0, byteLength];
  if (range && Number(end) <= start) return undefined;
  const how = { ...headOf(opened, range && [start, end]), ...seen(opened) };
  if (end === start) {
    file.close();
    return responseOf(/** @type {any} */ (new Response("").body), how);
  }
  const body = file.stream({ start, end: range && end, signal: signal ?? null });
  return responseOf(closing(body, () => file.close(), signal), how);
}

/**
 * The response to a request for the first byte. Its body is not a stream of the file, because it may never be read.
 *
 * @param {Opened} opened
 */
export async function firstByteOf(opened) {
  const { file } = opened;
  const firstByte = await file.bytes(0, 1).catch((error) => {
    file.close();
    throw error;
  });
  return asSeen(new Response(firstByte, headOf(opened, [0, 1])), seen(opened));
}

/**
 * The response to a request for bytes that the file does not have.
 *
 * @param {Opened} opened
 */
export function noSuchBytes(opened) {
  const headers = { "Content-Range": `bytes */${opened.file.byteLength ?? "*"}` };
  return asSeen(new Response(null, { status: 416, statusText: "Range Not Satisfiable", headers }), seen(opened));
}

/**
 * The head of a response: that of the server, which may have been asked for other bytes of the file.
 *
 * @param {Opened} opened
 * @param {[start: number, end: number | undefined] | undefined} range
 */
function headOf({ file, head }, range) {
  const { byteLength } = file;
  const headers = new Headers(head?.headers ?? { "Content-Type": file.type, "Accept-Ranges": "bytes" });
  const status = range ? 206 : 200;
  const set = (/** @type {string} */ name, /** @type {string | number | undefined} */ value) =>
    value === undefined ? headers.delete(name) : headers.set(name, String(value));
  if (range && byteLength !== undefined) {
    const [start, end = byteLength] = range;
    set("Content-Range", `bytes ${start}-${end - 1}/${byteLength}`);
    set("Content-Length", end - start);
  } else if (head?.status !== status) {
    set("Content-Range", undefined);
    set("Content-Length", byteLength);
  }
  // HTTP/2 has no text.
  const text = status === 206 ? "Partial Content" : "OK";
  return { status, statusText: head?.status === status ? head.statusText : head?.statusText && text, headers };
}

/** @param {Opened} opened */
function seen({ head, url }) {
  const { type = "default", redirected = false } = head ?? {};
  return { url, type, redirected };
}
