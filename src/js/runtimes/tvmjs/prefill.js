// @ts-check
// Fills the caches of web-llm, whose engine takes no cache of one's own.
import { openFile } from "../../weightstream.js";
import { LoadError, fail, invalid } from "../../loader/error.js";
import { messageOf } from "../../module/guard.js";
import { prefillOptions } from "../../options/options.js";
import { requestPolicy } from "../../request/request_policy.js";
import { urlOf } from "../../source/url.js";

/** @import * as Api from "./tvmjs.js" */
/** @import { RemoteFile } from "../../weightstream.js" */

/** As many as web-llm downloads at once. */
const CONCURRENCY = 4;

/**
 * Puts the file at a URL into the cache with this name, and returns it as it is cached.
 *
 * @typedef {(cache: string, url: string, add?: (loaded: number) => void) => Promise<Response>} Fill
 */

/** @type {typeof Api.prefill} */
export async function prefill(model, given) {
  const { digests, signal, onProgress, headers, credentials, origins, ...options } = prefillOptions(given);
  const { base, library, manifest } = addressesOf(model);
  if (signal?.aborted) throw signal.reason;
  const sentTo = requestPolicy({ headers, credentials, origins }, base);
  const stop = new AbortController();
  const abort = () => stop.abort(signal?.reason);
  signal?.addEventListener("abort", abort);

  /** @type {Fill} */
  const fill = async (name, url, add) => {
    const cache = await openCache(name);
    const found = await cache.match(url);
    if (found) return found;
    const digest = digests?.get(url);
    const file = await openFile(url, {
      hub: null,
      cache: "none",
      ...options,
      ...sentTo(url), // the library, and shards, may be at another origin
      ...(digest && { digest }),
      signal: stop.signal,
      onProgress: ({ loaded }) => add?.(loaded),
    });
    try {
      await put(cache, url, file, stop.signal);
    } finally {
      file.close();
    }
    return /** @type {Response} */ (await cache.match(url));
  };

  try {
    if (manifest) await fill("webllm/config", manifest);
    const config = await json(fill, "webllm/config", new URL("mlc-chat-config.json", base).href);
    const tokenizer = ["tokenizer.json", "tokenizer.model"].find((name) => config.tokenizer_files?.includes(name));
    if (tokenizer) await fill("webllm/model", new URL(tokenizer, base).href);
    if (library) await fill("webllm/wasm", library);
    await fillWeights(base, fill, onProgress);
  } catch (error) {
    stop.abort(error); // the other downloads
    throw error;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

/**
 * @param {string} base
 * @param {Fill} fill
 * @param {((progress: Api.PrefillProgress) => void) | undefined} onProgress
 */
async function fillWeights(base, fill, onProgress) {
  const url = new URL("tensor-cache.json", base).href;
  const { records } = await json(fill, "webllm/model", url);
  if (!Array.isArray(records) || !records.every(isShard)) {
    const message = `${url} has no list \`records\` of files with their sizes, so it is not the index of a model.`;
    throw fail({ code: "FORMAT", message, url });
  }
  const shards = [...records];
  const total = shards.reduce((sum, { nbytes }) => sum + nbytes, 0);
  let loaded = 0;
  const next = async () => {
    for (let shard; (shard = shards.shift());) {
      let counted = 0;
      const add = (/** @type {number} */ bytes) => {
        loaded += bytes - counted;
        counted = bytes;
        onProgress?.({ loaded, total });
      };
      await fill("webllm/model", new URL(shard.dataPath, base).href, add);
      if (counted < shard.nbytes) add(shard.nbytes); // it was there already
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, next));
}

/**
 * @param {any} record
 * @returns {record is { dataPath: string, nbytes: number }}
 */
function isShard(record) {
  return typeof record?.dataPath === "string" && Number.isSafeInteger(record.nbytes) && record.nbytes >= 0;
}

/**
 * @param {Fill} fill
 * @param {string} cache
 * @param {string} url
 */
async function json(fill, cache, url) {
  const response = await fill(cache, url);
  try {
    return Object(await response.json());
  } catch (cause) {
    throw fail({ code: "FORMAT", message: `${url} is not valid JSON. Check the URL.`, url, cause });
  }
}

/**
 * The URLs of a model, as web-llm derives them from its record.
 *
 * @param {Api.WebLlmModel} model
 */
function addressesOf(model) {
  if (typeof model?.model !== "string") throw invalid("`model` must be an item of the `model_list` of web-llm");
  const { model_lib: library, model_manifest: manifest } = model;
  for (const [name, value] of Object.entries({ model_lib: library, model_manifest: manifest })) {
    if (value !== undefined && typeof value !== "string") throw invalid(`\`${name}\` of \`model\` must be a string`);
  }
  const folder = model.model.replace(/\/?$/, "/");
  const base = urlOf(/.\/resolve\/.+\//.test(folder) ? folder : `${folder}resolve/main/`);
  return {
    base,
    // web-llm caches no other libraries.
    library: library?.startsWith("http") && !library.includes("localhost") ? library : undefined,
    manifest: manifest === undefined ? undefined : new URL(manifest, base).href,
  };
}

/** @param {string} name */
async function openCache(name) {
  if (typeof caches !== "undefined") return caches.open(name);
  const message = "There is no Cache API, which web-llm needs. Serve the page over HTTPS or from localhost.";
  throw fail({ code: "UNSUPPORTED", message });
}

/**
 * Puts a file into a cache. `Cache.put` itself does not report why a stream failed.
 *
 * @param {Cache} cache
 * @param {string} url
 * @param {RemoteFile} file
 * @param {AbortSignal} signal
 */
async function put(cache, url, file, signal) {
  const reader = file.stream({ signal }).getReader();
  /** @type {{ error: unknown } | undefined} */
  let failure;
  const body = new ReadableStream({
    async pull(controller) {
      try {
        const { value, done } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        failure = { error };
        throw error;
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
  const headers = new Headers({ "Content-Type": file.type });
  if (file.byteLength !== undefined) headers.set("Content-Length", String(file.byteLength));
  try {
    await cache.put(url, new Response(body, { headers }));
  } catch (cause) {
    if (failure) throw failure.error;
    const message = `${url} cannot be put into the cache of web-llm: ${messageOf(cause)}. Free storage.`;
    throw cause instanceof LoadError ? cause : fail({ code: "IO", message, url, cause });
  }
}
