/**
 * Models for the TVM runtime (`@mlc-ai/web-runtime`) and for web-llm.
 *
 * @module weightstream/tvmjs
 */
import type { Digest, OpenFilesOptions } from "../../weightstream.js";

/**
 * Options of {@link ArtifactCache}: those of `openFile`, for every file. `headers` and `credentials` are sent to the
 * origins of `origins`; by default only to the origin of the page. Where there is no page, they need `origins`.
 */
export interface ArtifactCacheOptions extends Pick<
  OpenFilesOptions, "fetch" | "headers" | "credentials" | "origins" | "onProgress" | "cache" | "cacheKey" | "retry"
> {
  /** The digests that files must have, by URL. A file with another digest rejects with `CHECKSUM`. Default: none. */
  digests?: Readonly<Record<string, Digest>> | undefined;
}

/**
 * The option `artifactCache` of `fetchTensorCache`, `hasTensorInCache` and `deleteTensorCache` of the TVM runtime:
 * files are loaded through weightstream and kept in its cache.
 *
 * ```js
 * await tvm.fetchTensorCache("https://example.com/model/", tvm.webgpu(), { artifactCache: new ArtifactCache() });
 * ```
 */
export class ArtifactCache {
  constructor(options?: ArtifactCacheOptions);
  /** Whether all of these files are cached completely. Requests nothing. */
  hasAllKeys(keys: readonly string[]): Promise<boolean>;
  /**
   * Loads a file, from the cache if it is there: as JSON if `storetype` is `"json"`, as an `ArrayBuffer` if it is
   * `"arraybuffer"`, and as a `Response` without it.
   */
  fetchWithCache(url: string, storetype?: string, signal?: AbortSignal): Promise<any>;
  /**
   * Downloads a file into the cache, unless it is known to be there. Downloads nothing once it is known that files
   * cannot be cached here, so that `fetchWithCache` is the only one to download them.
   */
  addToCache(url: string, storetype?: string, signal?: AbortSignal): Promise<void>;
  /** Deletes a file from the cache. */
  deleteInCache(url: string): Promise<void>;
}

/** The members of a `ModelRecord` of web-llm that {@link prefill} needs. */
export interface WebLlmModel {
  /** The URL of the folder of the weights. */
  readonly model: string;
  /** The URL of the compiled model. */
  readonly model_lib?: string | undefined;
  /** The URL of a manifest that web-llm caches together with its configuration. */
  readonly model_manifest?: string | undefined;
}

/** The progress of {@link prefill}, over all weights. */
export interface PrefillProgress {
  /** The number of bytes of the weights that have arrived or were in the cache of web-llm. */
  readonly loaded: number;
  /** The number of bytes of all weights. */
  readonly total: number;
}

/** Options of {@link prefill}. */
export interface PrefillOptions extends Omit<ArtifactCacheOptions, "onProgress" | "cache"> {
  /** Aborts the downloads: the call rejects with the `reason` of the signal. Default: none. */
  signal?: AbortSignal | null | undefined;
  /** Is called when bytes of the weights arrive. */
  onProgress?: ((progress: PrefillProgress) => void) | undefined;
  /**
   * The cache of weightstream, in addition to that of web-llm: with `"auto"`, files are stored twice, and a download of
   * a file that was interrupted continues after a reload of the page. Default: `"none"`.
   */
  cache?: OpenFilesOptions["cache"];
}

/**
 * Downloads all files of a model into the caches of web-llm (`webllm/model`, `webllm/config` and `webllm/wasm` in the
 * Cache API), from which its engine then loads them. Files that are there already are not downloaded again. `model` is
 * an item of the `model_list` of web-llm.
 *
 * `headers` and `credentials` are only sent to the origin of `model.model`, or instead to `origins`. The call has no
 * effect on web-llm if its `cacheBackend` is not `"cache"`.
 *
 * ```js
 * await prefill(prebuiltAppConfig.model_list.find(({ model_id }) => model_id === id));
 * const engine = await CreateMLCEngine(id);
 * ```
 */
export function prefill(model: WebLlmModel, options?: PrefillOptions): Promise<void>;
