/**
 * A drop-in `fetch` that resumes, verifies and caches.
 *
 * @module weightstream/fetch
 */
import type { OpenFilesOptions } from "../weightstream.js";

/**
 * Options of {@link createFetch}: those of `openFile`, for every file. `headers` and `credentials` apply to requests to
 * the origins of `origins`, with any method; by default only to the origin of the page. Where there is no page, such as
 * in Node.js, they need `origins`. Those of a single call apply to its URL.
 */
export type FetchOptions = Omit<OpenFilesOptions, "signal" | "type" | "digest">;

/**
 * Returns a function that is called like `fetch`. GET requests of http(s) URLs are made by weightstream: a broken
 * download resumes, and what was loaded is cached. All other requests are passed to the ordinary `fetch`, and so are
 * those that ask for something else than a file or one range of it: with `integrity`, `mode: "no-cors"`,
 * `cache: "only-if-cached"`, a `redirect` other than `"follow"`, a `Range` of several parts, or a condition such as
 * `If-None-Match`. With `signature`, such a GET request rejects with `INVALID_ARGUMENT`.
 *
 * The call resolves when the head of the response has arrived. The responses are real `Response`s with the headers,
 * `url`, `redirected` and `type` of the server's, and with status 200, or 206 for a request with a `Range` of one part.
 * If the server answers with another status, the caller gets its response. Failures reject with a `LoadError`, or with
 * the reason of the signal: the call itself, the methods of the response, and the reader of its body alike.
 */
export function createFetch(options?: FetchOptions): typeof globalThis.fetch;
