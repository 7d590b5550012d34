// @ts-check
// `weightstream/tvmjs`: the files of a model for the TVM runtime, and for web-llm.
import { cacheFind } from "./weightstream_glue.js";
import { openFile } from "./weightstream.js";
import { invalid } from "./weightstream.error.js";
import { init, settle } from "./weightstream.module.js";
import { artifactOptions, names } from "./weightstream.options.js";
import { requestPolicy } from "./weightstream.request_policy.js";
import { urlOf } from "./weightstream.url.js";

/** @import * as Api from "./weightstream.tvmjs.js" */
/** @import { RemoteFile } from "./weightstream.js" */

export { prefill } from "./weightstream.prefill.js";

/**
 * What `fetchWithCache` returns for each store type, in lower case.
 *
 * @type {Map<string, (file: RemoteFile, signal: AbortSignal | null) => Promise<any>>}
 */
const READ = new Map([
  ["json", (file, signal) => file.json({ signal })],
  ["arraybuffer", (file, signal) => file.arrayBuffer({ signal })],
]);

/** @implements {Api.ArtifactCache} */
export class ArtifactCache {
  #options;
  #sentTo;
  #digests;
  /** Whether files are cached, as far as it is known. Files that are not cached must not be downloaded in advance. */
  #isCaching;
  /** @type {Set<string>} The files that are known to be cached completely, so that they need not be read again. */
  #complete = new Set();

  /** @param {Api.ArtifactCacheOptions} [given] */
  constructor(given) {
    const { digests, headers, credentials, origins, ...options } = artifactOptions(given);
    this.#options = options;
    this.#sentTo = requestPolicy({ headers, credentials, origins });
    this.#digests = digests;
    this.#isCaching = options.cache !== "none";
  }

  /** @param {readonly string[]} keys */
  async hasAllKeys(keys) {
    const urls = names(keys, "keys").map((url) => urlOf(url));
    const found = await this.#areCached(urls);
    return found.every(Boolean);
  }

  /**
   * @param {string} url
   * @param {string} [storetype]
   * @param {AbortSignal} [signal]
   */
  async fetchWithCache(url, storetype, signal) {
    const read = reader(storetype);
    const file = await this.#open(urlOf(url), signal);
    try {
      return await read(file, signal ?? null);
    } finally {
      file.close();
    }
  }

  /**
   * @param {string} url
   * @param {string} [storetype]
   * @param {AbortSignal} [signal]
   */
  async addToCache(url, storetype, signal) {
    reader(storetype);
    const address = urlOf(url);
    if (!this.#isCaching || this.#complete.has(address)) return;
    const file = await this.#open(address, signal);
    try {
      await file.stream({ signal: signal ?? null }).pipeTo(new WritableStream());
      const isCached = file.stats.cacheError === undefined || (await this.#areCached([address]))[0];
      if (isCached) this.#complete.add(address);
      else this.#isCaching = false;
    } finally {
      file.close();
    }
  }

  /** @param {string} url */
  async deleteInCache(url) {
    const address = urlOf(url);
    this.#complete.delete(address);
    await init();
    await settle(() => cacheFind([address], this.#optionsFor(address), true));
  }

  /**
   * @param {string} address
   * @param {AbortSignal | undefined} signal
   */
  #open(address, signal) {
    const digest = this.#digests?.get(address);
    const options = this.#optionsFor(address);
    return openFile(address, { ...options, hub: null, ...(digest && { digest }), signal: signal ?? null });
  }

  /** @param {string} url */
  #optionsFor(url) {
    return { ...this.#options, ...this.#sentTo(url) };
  }

  /** @param {string[]} urls */
  async #areCached(urls) {
    await init();
    const isPrivate = (/** @type {string} */ url) => Object.keys(this.#sentTo(url)).length > 0;
    // What was loaded with headers is cached apart from the rest.
    const groups = [urls.filter(isPrivate), urls.filter((url) => !isPrivate(url))].filter((group) => group.length > 0);
    for (const group of groups) {
      const found = await settle(() => cacheFind(group, this.#optionsFor(String(group[0])), false));
      group.forEach((url, at) => (found[at] ? this.#complete.add(url) : this.#complete.delete(url)));
    }
    return urls.map((url) => this.#complete.has(url));
  }
}

/** @param {unknown} storetype */
function reader(storetype) {
  if (storetype === undefined) return asResponse;
  const read = READ.get(String(storetype).toLowerCase());
  if (!read) throw invalid(`\`storetype\` is ${JSON.stringify(storetype)}, but must be "json" or "arraybuffer"`);
  return read;
}

/**
 * @param {RemoteFile} file
 * @param {AbortSignal | null} signal
 */
async function asResponse(file, signal) {
  const bytes = await file.bytes(0, undefined, { signal });
  const response = new Response(bytes, { headers: { "Content-Type": file.type } });
  return Object.defineProperty(response, "url", { value: file.url });
}
