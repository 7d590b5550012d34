/**
 * A service worker that answers requests of pages, for consumers that only take a URL.
 *
 * @module weightstream/service-worker
 */
import type { OpenFilesOptions } from "../weightstream.js";

/**
 * Options of {@link serve}: those of `openFile`, for every file, and which URLs are answered. `signature` is that of a
 * model with all these files, without `path`; for `certificateChain`, also import `weightstream/certificates`.
 *
 * `headers` and `credentials` are sent to the origins of `origins`; by default only to the origin of the service
 * worker, also if `source` returns a URL on another one.
 */
export interface ServeOptions
  extends Omit<OpenFilesOptions, "signal" | "type" | "digest" | "hub" | "crossOriginStorage"> {
  /**
   * Says whether a URL is answered. It is called with each URL of the worker's own origin that is requested with GET or
   * HEAD, and must return `true` or `false` at once. All other requests are left to the browser.
   */
  match: (url: URL) => boolean;
  /**
   * Returns the URL to load a file from, for the URL that was requested. A file on another origin needs CORS headers.
   * Default: the same URL.
   */
  source?: ((url: URL) => string | URL) | undefined;
  /**
   * Called if a request fails, with the error and the URL that was requested. The page only gets a `TypeError`. It is
   * not called for responses with an error status, which the page gets as they are. Default: none.
   */
  onError?: ((error: unknown, url: string) => void) | undefined;
}

/**
 * Answers requests in a service worker: a broken download resumes, and what was loaded is cached. Requests with a
 * `Range` of one part are answered with 206. Requests for the same file share one download.
 *
 * Call it in the script of the service worker, not in a callback: service workers receive events only for listeners
 * that are added at once.
 *
 * ```js
 * import { serve } from "weightstream/service-worker";
 *
 * serve({ match: (url) => url.pathname.startsWith("/models/") });
 * ```
 */
export function serve(options: ServeOptions): void;
