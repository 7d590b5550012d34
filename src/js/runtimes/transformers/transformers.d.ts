/**
 * transformers.js loads the files of its models through weightstream.
 *
 * @module weightstream/transformers
 */
import type { FetchOptions } from "../../request/fetch.js";

/** The settings of transformers.js that {@link connect} changes: its `env`. */
export interface TransformersEnvironment {
  /** Makes all requests. */
  fetch: (input: string | URL, init?: any) => Promise<any>;
  /** Whether files are kept in the Cache API. */
  useBrowserCache: boolean;
  /** Whether files are kept in `customCache`. */
  useCustomCache: boolean;
  /** Finds, keeps and deletes files. */
  customCache: any;
  /** Whether files are kept in the file system. */
  useFSCache: boolean;
  /** Whether files are kept in storage that origins share. */
  experimental_useCrossOriginStorage?: boolean;
}

/** Options of {@link connect}: those of `createFetch`, for every file, and a signal. */
export interface ConnectOptions extends FetchOptions {
  /**
   * Aborts all requests of transformers.js from then on: its pending calls, such as `pipeline()`, reject with the
   * `reason` of the signal. transformers.js itself has no signals. Default: none.
   */
  signal?: AbortSignal | null | undefined;
}

/**
 * Lets transformers.js load all files of its models through weightstream: a broken download resumes, and what was
 * loaded is cached by weightstream. The caches of transformers.js itself are switched off, so that nothing is stored
 * twice. Its `customCache` finds the files that weightstream has cached, for `is_cached` and `clear_cache` of
 * `ModelRegistry`.
 *
 * `env` is the `env` of transformers.js. Requests are made with its `fetch`, unless `options` has another one. A second
 * call replaces the first.
 *
 * Returns a function that restores the settings, except for those that were changed since then.
 *
 * ```js
 * import { env, pipeline } from "@huggingface/transformers";
 *
 * const disconnect = connect(env);
 * const extractor = await pipeline("feature-extraction", "Xenova/all-MiniLM-L6-v2");
 * disconnect();
 * ```
 */
export function connect(env: TransformersEnvironment, options?: ConnectOptions): () => void;
