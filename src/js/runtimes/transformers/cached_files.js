// @ts-check
// What transformers.js asks about its cache: the files that weightstream has cached. Its own caches would store them a
// second time.
import { cacheFind } from "../../module/glue.js";
import { fail } from "../../loader/error.js";
import { init, settle } from "../../module/module.js";
import { requestPolicy } from "../../request/request_policy.js";
import { baseOf, tryUrl } from "../../source/url.js";

/** @import { CheckedFileOptions } from "../../module/glue.js" */

/** @typedef {Pick<CheckedFileOptions, "cache" | "cacheKey" | "headers" | "credentials">} Find */

/** The `customCache` of transformers.js. */
export class CachedFiles {
  #load;
  #options;
  #sentTo;
  /** @type {WeakSet<Response>} Responses that weightstream made. Others are copies of them. */
  #loaded = new WeakSet();

  /**
   * @param {typeof globalThis.fetch} load Loads files, from the cache if they are cached.
   * @param {Find & { origins?: string[] | undefined }} options
   */
  constructor(load, { headers, credentials, origins, ...options }) {
    this.#load = load;
    this.#options = options;
    this.#sentTo = requestPolicy({ headers, credentials, origins });
  }

  /**
   * Remembers a response to a request of transformers.js.
   *
   * @param {Response} response
   */
  add(response) {
    this.#loaded.add(response);
    return response;
  }

  /**
   * A response with a file of which all bytes are cached. It is loaded once its body is read: most calls only ask
   * whether it is there, and how long it is. A file that cannot be found, because the cache fails, is not cached.
   *
   * @param {string} name A URL, which may be relative.
   */
  async match(name) {
    const url = tryUrl(name, baseOf())?.href;
    const byteLength = url && (await this.#find(url, false).catch(() => undefined));
    if (!url || byteLength === undefined) return undefined;
    /** @type {Promise<ReadableStreamDefaultReader<Uint8Array>> | undefined} */
    let opening;
    const body = new ReadableStream({
      pull: async (controller) => {
        opening ??= this.#open(url);
        const { done, value } = await (await opening).read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: async (reason) => (await opening)?.cancel(reason),
    }, { highWaterMark: 0 });
    return this.add(new Response(body, { headers: { "Content-Length": String(byteLength) } }));
  }

  /**
   * Called for each file that was not cached. Its bytes have been cached while they were read.
   *
   * @param {string} _
   * @param {Response} response
   */
  async put(_, response) {
    if (!this.#loaded.has(response)) return void (await response.body?.cancel());
    // In Node.js, transformers.js leaves it to the cache to read a file.
    const reader = response.body?.getReader();
    while (reader && !(await reader.read()).done);
  }

  /**
   * Deletes a file. Resolves to whether it was there.
   *
   * @param {string} name
   */
  async delete(name) {
    const url = tryUrl(name, baseOf())?.href;
    return url !== undefined && (await this.#find(url, true)) !== undefined;
  }

  /**
   * @param {string} url
   * @param {boolean} forgets
   */
  async #find(url, forgets) {
    if (!/^https?:/.test(url)) return undefined;
    await init();
    const options = { ...this.#options, ...this.#sentTo(url) };
    const [byteLength] = await settle(() => cacheFind([url], options, forgets));
    return byteLength;
  }

  /** @param {string} url */
  async #open(url) {
    const response = await this.#load(url);
    if (response.ok) return (response.body ?? new Blob([]).stream()).getReader();
    const { status } = response;
    const message = `${url} is cached, but its server answers with the status ${status}. Check the address, or log in.`;
    throw fail({ code: "HTTP", message, url, status });
  }
}
