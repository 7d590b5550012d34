/**
 * Models for the TVM runtime (`@mlc-ai/web-runtime`) and for web-llm.
 *
 * @module weightstream/tvmjs
 */
import type { Digest, OpenFilesOptions, StreamingLoader } from "../../weightstream.js";

/**
 * Options of {@link ArtifactCache}: those of `openFile`, for every file. `headers` and `credentials` are sent to the
 * origins of `origins`; by default only to the origin of the page. Where there is no page, they need `origins`.
 */
export interface ArtifactCacheOptions extends Pick<
  OpenFilesOptions,
  | "fetch" | "headers" | "credentials" | "origins" | "onProgress" | "cache" | "cacheKey" | "crossOriginStorage"
  | "retry"
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

/** Options of {@link ModelArtifacts}. */
export interface ModelArtifactsOptions {
  /**
   * Whether BF16 is passed as `bfloat16`, for models that were compiled with parameters of this dtype. Otherwise, it is
   * passed as MLC stores `float32`: packed, which the runtime widens. Default: `false`.
   */
  bfloat16?: boolean | undefined;
}

/**
 * The option `artifactCache` of `fetchTensorCache` of the TVM runtime for a model that is open: a `tensor-cache.json`
 * from a hub, local files or a signed model, or what `weightstream convert` made of one. The runtime then loads its
 * parameters from it, at most 32 MiB at a time, or one larger tensor, while the next 32 MiB are loaded. The URL that it
 * is called with does not matter.
 *
 * ```js
 * const artifactCache = new ModelArtifacts(await StreamingLoader.open("/model.zt"));
 * await tvm.fetchTensorCache("https://localhost/", tvm.webgpu(), { artifactCache });
 * ```
 *
 * Calls reject with `UNSUPPORTED` if a tensor is not dense, or has a dtype that TVM lacks.
 */
export class ModelArtifacts {
  constructor(model: StreamingLoader, options?: ModelArtifactsOptions);
  /** Whether the model has all of these files: `tensor-cache.json` and those that it lists. */
  hasAllKeys(keys: readonly string[]): Promise<boolean>;
  /** Loads `tensor-cache.json` (`"json"`), or the bytes of a file that it lists (`"arraybuffer"`). */
  fetchWithCache(url: string, storetype?: string, signal?: AbortSignal): Promise<any>;
  /** Does nothing: `fetchWithCache` loads. Rejects with `NOT_FOUND` for another file. */
  addToCache(url: string, storetype?: string, signal?: AbortSignal): Promise<void>;
  /** Rejects: an open model is not deleted. */
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
