/**
 * A drop-in `fetch` that resumes, verifies and caches.
 *
 * @module weightstream/fetch
 */
import type { OpenFileOptions } from "./weightstream.js";

/** Options of {@link createFetch}: those of `openFile`, for every file. */
export type FetchOptions = Omit<OpenFileOptions, "signal" | "type" | "digest">;

/**
 * Returns a function that is called like `fetch`. GET requests of http(s) URLs are made by weightstream: a broken
 * download resumes, and what was loaded is cached. All other requests are passed to the ordinary `fetch`.
 *
 * The responses are real `Response`s, with status 200, or 206 for a request with a `Range` of one part. A response with
 * an error status is returned as `fetch` does. Failures reject with a `LoadError`, or with the reason of the signal:
 * the call itself, the methods of the response, and the reader of its body alike.
 */
export function createFetch(options?: FetchOptions): typeof globalThis.fetch;
