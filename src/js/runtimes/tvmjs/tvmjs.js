// @ts-check
// `weightstream/tvmjs`: the files of a model for the TVM runtime, and for web-llm.
import { cacheFind } from "../../module/glue.js";
import { invalid } from "../../loader/error.js";
import { IS_CACHING, openFile } from "../../file/file.js";
import { init, settle } from "../../module/module.js";
import { artifactOptions, names } from "../../options/options.js";
import { requestPolicy } from "../../request/request_policy.js";
import { urlOf } from "../../source/url.js";

/** @import * as Api from "./tvmjs.js" */
/** @import { RemoteFile } from "../../file/file.js" */

export { ModelArtifacts } from "./model_artifacts.js";
export { prefill } from "./prefill.js";

/**
 * What `fetchWithCache` returns for each store type, in lower case.
 *
 * @type {Map<string, (file: RemoteFile, signal: AbortSignal | null) => Promise<any>>}
 */
const READ = new Map([
  ["json", (file, signal) => file.json({ signal })],
  ["arraybuffer", (file, signal) => file.arrayBuffer({ signal })],
]);

/** How long no file of a server is downloaded in advance after one that could not be cached. The cause may pass. */
const UNCACHED_MS = 10_000;

/** @implements {Api.ArtifactCache} */
export class ArtifactCache {
  #options;
  #sentTo;
  #digests;
  /** @type {Map<string, number>} Servers whose files could not be cached, and when that was seen, in milliseconds. */
  #uncached = new Map();
  /** @type {Set<string>} The files that were read to their end. They need not be read again while they are cached. */
  #complete = new Set();

  /** @param {Api.ArtifactCacheOptions} [given] */
  constructor(given) {
    const { digests, headers, credentials, origins, ...options } = artifactOptions(given);
    this.#options = options;
    this.#sentTo = requestPolicy({ headers, credentials, origins });
    this.#digests = digests;
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
    if (this.#options.cache === "none") return;
    if (this.#complete.has(address) && (await this.#areCached([address]))[0]) return;
    const { origin } = new URL(address);
    if (performance.now() - (this.#uncached.get(origin) ?? -Infinity) < UNCACHED_MS) return;
    const file = await this.#open(address, signal);
    try {
      const pieces = file.stream({ signal: signal ?? null }).getReader();
      // What cannot be cached must not be downloaded in advance.
      while (file[IS_CACHING]) {
        if (!(await pieces.read()).done) continue;
        this.#complete.add(address);
        return;
      }
      this.#uncached.set(origin, performance.now());
      await pieces.cancel();
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
   * @returns {Promise<RemoteFile>}
   */
  async #open(address, signal) {
    const digest = this.#digests?.get(address);
    const options = { ...this.#optionsFor(address), hub: null, ...(digest && { digest }), signal: signal ?? null };
    /** @type {any} Of the class of the package, not of its type in the API. */
    const file = await openFile(address, options);
    return file;
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
      group.forEach((url, at) => this.#complete[found[at] === undefined ? "delete" : "add"](url));
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
