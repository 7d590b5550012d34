// @ts-check
// `weightstream/service-worker`: answers requests of pages, for consumers that only take a URL.
import { cachedBytes, init } from "../weightstream.js";
import { untilAborted } from "../loader/abort.js";
import { fail, invalid } from "../loader/error.js";
import { piecesScript } from "../loader/loader.js";
import * as pieces from "../loader/pieces.js";
import * as options from "../options/options.js";
import { rangeOf, within } from "../request/request.js";
import { requestPolicy } from "../request/request_policy.js";
import { Refusal, ServedFiles } from "./served.js";
import * as signatures from "../signature/signature.js";
import { signatureScript } from "../source/source.js";
import { byteStream, closing } from "../file/stream.js";
import { urlOf } from "../source/url.js";

/** @import * as Api from "./service-worker.js" */
/** @import { Entry, ServedFile } from "./served.js" */
/** @import { SignatureOptions } from "../weightstream.js" */

/**
 * The part of a `FetchEvent` that is used.
 *
 * @typedef {{
 *   request: Request, waitUntil(promise: Promise<unknown>): void, respondWith(response: Promise<Response>): void,
 * }} FetchEvent
 */

// import() is not allowed in service workers
piecesScript.provide(pieces);
signatureScript.provide(signatures);

// Browsers have no Cross-Origin Storage in service workers.
const { crossOriginStorage: _, ...FILES } = options.FILES;

const checked = options.options({
  ...FILES,
  signature: options.commonSignature,
  match: options.callable,
  source: options.callable,
  onProgress: options.callable,
  onError: options.callable,
  maxMemory: options.integer(0),
}, "serve");

/** @typedef {ReturnType<typeof checked> & { files: ServedFiles, sentTo: ReturnType<typeof requestPolicy> }} Service */

/** @type {typeof Api.serve} */
export function serve(given) {
  const { match, ...how } = checked(given);
  if (!match) throw invalid("`match` is missing: it says which URLs are answered");
  if (how.signal) throw invalid("`signal` is an option of openFile(), and not of serve()");
  if (!("registration" in globalThis) || !("skipWaiting" in globalThis)) {
    const message = "serve() must be called in a service worker. Call it in the script that you register.";
    throw fail({ code: "UNSUPPORTED", message });
  }
  if (how.signature) signatures.checkedSignature(how.signature);
  const service = { ...how, files: new ServedFiles(how.maxMemory), sentTo: requestPolicy(how) };
  addEventListener("fetch", (event) => answerMatching(/** @type {any} */ (event), match, service));
}

/**
 * @param {FetchEvent} event
 * @param {(url: URL) => unknown} match
 * @param {Service} service
 */
function answerMatching(event, match, service) {
  const { request } = event;
  if (request.method !== "GET" && request.method !== "HEAD") return;
  const url = new URL(request.url);
  url.hash = "";
  if (url.origin !== location.origin) return;
  const isMatch = match(new URL(url));
  if (typeof isMatch !== "boolean") throw invalid("`match` must return true or false, and not a promise");
  if (!isMatch) return;
  // The browser may end the worker once all these promises are settled.
  event.waitUntil(new Promise((resolve) => {
    event.respondWith(answer(request, url, service, () => resolve(pendingWrites(service))));
  }));
}

/**
 * Settles when what was loaded has been written to the cache, which answers one request after the other.
 *
 * @param {Service} service
 */
async function pendingWrites({ cache = "auto" }) {
  if (typeof cache === "object" || cache === "none") return;
  await new Promise((resolve) => setTimeout(resolve)); // the end of a body starts the last write
  await cachedBytes().catch(() => {});
}

/**
 * @param {Request} request
 * @param {URL} url
 * @param {Service} service
 * @param {() => void} finish Is called when the body of the response has ended.
 */
async function answer(request, url, service, finish) {
  /** @type {Entry | undefined} */
  let entry;
  const leave = () => {
    finish();
    request.signal.removeEventListener("abort", leave);
    if (entry) service.files.leave(entry);
    entry = undefined;
  };
  try {
    const source = service.source ? urlOf(service.source(new URL(url))) : url.href;
    try {
      await untilAborted(request.signal, init);
    } catch (error) {
      request.signal.throwIfAborted();
      service.onError?.(error, url.href);
      const response = await fetch(source === url.href ? request : source, { signal: request.signal });
      leave();
      return response;
    }
    // A condition in the headers sets the mode to `no-store` too.
    const mode = request.headers.has("If-Range") ? "default" : request.cache;
    const isFresh = ["reload", "no-cache", "no-store"].includes(mode);
    const how = openOptions(request, mode, source, service);
    const cookies = await visibleCookies();
    request.signal.throwIfAborted();
    let joined = (entry = service.files.join(source, how, isFresh, cookies));
    const wasOpen = joined.isOpen;
    request.signal.addEventListener("abort", leave);
    request.signal.throwIfAborted();
    let served = await joined.opening;
    request.signal.throwIfAborted();
    if (wasOpen && !isConditionMet(request, served)) {
      // The client has bytes of another version, which the server may have by now.
      const next = service.files.join(source, how, true, cookies);
      service.files.leave(joined);
      joined = entry = next;
      served = await joined.opening;
      request.signal.throwIfAborted();
    }
    const used = joined;
    const failed = (/** @type {unknown} */ error) => {
      service.files.forget(used); // the next request opens the file again
      service.onError?.(error, url.href);
    };
    return responseTo(request, served, leave, failed);
  } catch (error) {
    leave();
    if (error instanceof Refusal) return error.response.clone();
    if (!request.signal.aborted) service.onError?.(error, url.href);
    throw error;
  }
}

/**
 * The cookies that scripts can see, where service workers have the Cookie Store API. A file that was opened before a
 * login or a logout is then opened again at once.
 *
 * @returns {Promise<string | undefined>}
 */
async function visibleCookies() {
  try {
    const cookies = await /** @type {any} */ (globalThis).cookieStore?.getAll();
    return cookies && JSON.stringify(cookies.map((/** @type {any} */ { name, value }) => [name, value]));
  } catch {
    return undefined; // they are not known
  }
}

/**
 * The options of a file, with what the page may say about its own origin.
 *
 * @param {Request} request
 * @param {RequestCache} mode
 * @param {string} source
 * @param {Service} given
 */
function openOptions(request, mode, source, given) {
  const { fetch, cache, cacheKey, retry, onProgress, signature, sentTo } = given;
  const { headers, credentials } = sentTo(source);
  const authorization = request.headers.get("Authorization");
  const isOwn = new URL(source).origin === location.origin;
  const own = isOwn && authorization !== null ? [...(headers ?? []), ["Authorization", authorization]] : headers;
  return {
    fetch, cacheKey, retry, onProgress,
    ...(signature && { signature: /** @type {SignatureOptions} */ (signature) }),
    headers: /** @type {[string, string][] | undefined} */ (own),
    credentials: credentials ?? (isOwn && request.credentials === "omit" ? "omit" : undefined),
    cache: mode === "no-store" ? /** @type {const} */ ("none") : cache,
  };
}

/**
 * @param {Request} request
 * @param {ServedFile} served
 * @param {() => void} leave
 * @param {(error: unknown) => void} failed
 */
function responseTo(request, served, leave, failed) {
  const { byteLength, type } = served.file;
  const headers = new Headers({ "Content-Type": type, "Accept-Ranges": byteLength === undefined ? "none" : "bytes" });
  if (served.etag !== null) headers.set("ETag", served.etag);
  if (served.lastModified !== null) headers.set("Last-Modified", served.lastModified);
  const takesRanges = byteLength !== undefined && request.method === "GET" && isConditionMet(request, served);
  const range = takesRanges ? rangeOf(request.headers.get("Range") ?? "") : undefined;
  const [start, end] = range ? within(range, byteLength) : [0, byteLength];
  if (range && start >= Number(end)) {
    leave();
    headers.set("Content-Range", `bytes */${byteLength}`);
    return new Response(null, { status: 416, headers });
  }
  if (end !== undefined) headers.set("Content-Length", String(end - start));
  if (range) headers.set("Content-Range", `bytes ${start}-${Number(end) - 1}/${byteLength}`);
  const status = range ? 206 : 200;
  if (request.method === "HEAD") {
    leave();
    return new Response(null, { status, headers });
  }
  return new Response(bodyOf(request, served, start, end, leave, failed), { status, headers });
}

/**
 * Whether the client has no bytes of another version. Only a strong ETag proves that: a date counts in whole seconds.
 *
 * @param {Request} request
 * @param {ServedFile} served
 */
function isConditionMet({ headers }, { etag }) {
  const condition = headers.get("If-Range");
  return condition === null || condition === etag;
}

/**
 * @param {Request} request
 * @param {ServedFile} served
 * @param {number} start
 * @param {number | undefined} end
 * @param {() => void} leave
 * @param {(error: unknown) => void} failed
 */
function bodyOf({ signal }, served, start, end, leave, failed) {
  const stop = new AbortController();
  const abort = () => stop.abort(signal.reason);
  signal.addEventListener("abort", abort);
  const stream = byteStream(async function* (cancelled) {
    cancelled.addEventListener("abort", () => stop.abort(cancelled.reason));
    try {
      yield* served.read(start, end, stop.signal);
    } catch (error) {
      if (!stop.signal.aborted) failed(error);
      throw error;
    }
  });
  return closing(stream, () => {
    signal.removeEventListener("abort", abort);
    leave();
  });
}
