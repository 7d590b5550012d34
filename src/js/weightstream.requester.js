// @ts-check
// The requests behind `weightstream/fetch` and the runtimes that take a `fetch`.
import { LoadError, openFile } from "./weightstream.js";
import { invalid } from "./weightstream.error.js";
import { commonSignature, fileOptions } from "./weightstream.options.js";
import { responseOf } from "./weightstream.response.js";
import { closing } from "./weightstream.stream.js";
import { urlOf } from "./weightstream.url.js";

/** @import { FetchOptions } from "./weightstream.fetch.js" */
/** @import { RemoteFile } from "./weightstream.js" */
/** @import { ProbedFiles } from "./weightstream.probed.js" */

/**
 * A `fetch` whose GET requests are made by `openFile`.
 *
 * @param {FetchOptions} [given]
 * @param {ProbedFiles} [probed] Keeps a file open after a request for its first byte, for the request that follows.
 * @returns {typeof globalThis.fetch}
 */
export function requester(given = {}, probed) {
  const { headers: commonHeaders } = checkOptions(given);
  const { fetch: base, headers: _, ...options } = given;
  const ordinaryFetch = /** @type {typeof fetch} */ (base ?? ((input, init) => globalThis.fetch(input, init)));

  const signatureUrl = options.signature && urlOf(options.signature.url);

  return async (input, init) => {
    const method = init?.method ?? (input instanceof Request ? input.method : "GET");
    if (method.toUpperCase() !== "GET") return ordinaryFetch(input, init); // a new Request would take its body
    const request = new Request(input, init);
    if (!/^https?:$/.test(new URL(request.url).protocol)) return ordinaryFetch(input, init);
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined);
    const headers = new Headers(commonHeaders);
    request.headers.forEach((value, name) => headers.set(name, value));
    const range = headers.get("Range");
    headers.delete("Range");
    if (range !== null && !RANGE.test(range)) return ordinaryFetch(input, init);

    /** @type {Response | undefined} */
    let refusal;
    /** @type {typeof fetch} */
    const observed = async (url, given) => {
      const response = await ordinaryFetch(url, { ...requestOptions(request, init), ...given });
      if (response.ok || response.status === 416 || String(url) === signatureUrl) return response;
      // The module only reports the status. The caller gets the response itself.
      const body = await response.arrayBuffer().catch(() => null);
      const copy = { status: response.status, statusText: response.statusText, headers: response.headers };
      refusal = new Response(isNull(response.status) ? null : body, copy);
      return new Response(null, copy);
    };
    const open = () =>
      openFile(request.url, {
        ...options,
        // A probe is answered from the cache too, so that a runtime which probes a file works offline.
        ...(request.cache === "no-store" && !(probed && range === PROBE) && { cache: "none" }),
        ...(init?.credentials && { credentials: init.credentials }),
        headers,
        signal: signal ?? null,
        fetch: observed,
      });
    let file;
    try {
      file = (range === null && probed?.take(request.url, headers)) || (await open());
      if (probed && range === PROBE) return await probeResponse(file, probed, headers);
    } catch (error) {
      if (refusal && error instanceof LoadError && error.code === "HTTP") {
        return Object.defineProperty(refusal, "url", { value: request.url });
      }
      throw error;
    }
    return range === null ? wholeResponse(file, signal) : rangeResponse(file, range, signal);
  };
}

/** A single range of bytes: from a first byte, or the last bytes of the file. */
const RANGE = /^bytes=(?:(\d+)-(\d*)|-(\d+))$/;

/** The range of a request that only asks for the length of a file. */
const PROBE = "bytes=0-0";

/** @param {unknown} given */
function checkOptions(given) {
  const { signal, type, digest, ...options } = fileOptions(given);
  for (const [name, value] of Object.entries({ signal, type, digest })) {
    if (value !== undefined) throw invalid(`\`${name}\` is an option of openFile(), and not of a fetch for all files`);
  }
  if (options.signature) commonSignature(options.signature, "signature");
  return options;
}

/** @param {number} status */
const isNull = (status) => [101, 103, 204, 205, 304].includes(status);

/**
 * The options of a request that concern how it is made, and not what is requested.
 *
 * @param {Request} request
 * @param {RequestInit | undefined} init
 * @returns {RequestInit}
 */
function requestOptions({ mode, redirect, referrer, referrerPolicy }, init) {
  return {
    ...(mode !== "navigate" && { mode }),
    redirect,
    ...(init?.referrer !== undefined && { referrer }),
    referrerPolicy,
  };
}

/**
 * @param {RemoteFile} file
 * @param {AbortSignal | null | undefined} signal
 */
function wholeResponse(file, signal) {
  const { byteLength } = file;
  return respond(file, { status: 200, signal, ...(byteLength !== undefined && { length: byteLength }) });
}

/**
 * @param {RemoteFile} file
 * @param {string} range
 * @param {AbortSignal | null | undefined} signal
 */
function rangeResponse(file, range, signal) {
  const { byteLength } = file;
  if (byteLength === undefined) return wholeResponse(file, signal); // a server may ignore the header
  const [, first, last, suffix] = RANGE.exec(range) ?? [];
  const start = first === undefined ? Math.max(0, byteLength - Number(suffix)) : Number(first);
  const end = last ? Math.min(Number(last) + 1, byteLength) : byteLength;
  if (start >= end) {
    file.close();
    const headers = { "Content-Range": `bytes */${byteLength}` };
    return Object.defineProperty(new Response(null, { status: 416, headers }), "url", { value: file.url });
  }
  const contentRange = `bytes ${start}-${end - 1}/${byteLength}`;
  return respond(file, { status: 206, signal, length: end - start, start, end, contentRange });
}

/**
 * The response to a probe. Its body is not a stream of the file, because it may never be read.
 *
 * @param {RemoteFile} file
 * @param {ProbedFiles} probed
 * @param {Headers} headers
 */
async function probeResponse(file, probed, headers) {
  const { byteLength } = file;
  if (!byteLength) return rangeResponse(file, PROBE, undefined);
  const firstByte = await file.bytes(0, 1).catch((error) => {
    file.close();
    throw error;
  });
  const response = new Response(firstByte, {
    status: 206,
    headers: {
      "Content-Type": file.type,
      "Accept-Ranges": "bytes",
      "Content-Length": "1",
      "Content-Range": `bytes 0-0/${byteLength}`,
    },
  });
  Object.defineProperty(response, "url", { value: file.url });
  probed.keep(file.url, headers, file);
  return response;
}

/**
 * @param {RemoteFile} file
 * @param {{
 *   status: number, signal?: AbortSignal | null | undefined, length?: number, start?: number, end?: number,
 *   contentRange?: string,
 * }} how
 */
function respond(file, { status, signal, length, start, end, contentRange }) {
  const headers = new Headers({ "Content-Type": file.type, "Accept-Ranges": "bytes" });
  if (length !== undefined) headers.set("Content-Length", String(length));
  if (contentRange !== undefined) headers.set("Content-Range", contentRange);
  const stream = file.stream({ start, end, signal: signal ?? null });
  return responseOf(closing(stream, () => file.close()), { status, headers, url: file.url });
}
