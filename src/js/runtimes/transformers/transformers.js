// @ts-check
// `weightstream/transformers`: transformers.js loads the files of its models through weightstream.
import { invalid } from "../../loader/error.js";
import { CachedFiles } from "./cached_files.js";
import { filesOptions } from "../../options/options.js";
import { ProbedFiles } from "../../request/probed.js";
import { memberOf, membersOf } from "../../request/request.js";
import { requester } from "../../request/requester.js";

/** @import * as Api from "./transformers.js" */

/** The caches of transformers.js. Each would store the files a second time. */
const CACHES = /** @type {const} */ (["experimental_useCrossOriginStorage", "useBrowserCache", "useFSCache"]);

/** @type {WeakMap<object, () => void>} What undoes the connection of an `env`. */
const connections = new WeakMap();

/** @type {typeof Api.connect} */
export function connect(env, given = {}) {
  if (typeof env !== "object" || env === null || typeof env.fetch !== "function") {
    throw invalid("`env` must be the `env` of transformers.js 4, which has a function `fetch`");
  }
  const { signal, headers, credentials, origins, cache, cacheKey } = filesOptions(given);
  const options = { ...given, headers, origins, signal: undefined };
  requester(options); // throws if an option is invalid, before anything is changed
  connections.get(env)?.();

  const probed = new ProbedFiles();
  const base = /** @type {typeof globalThis.fetch} */ (options.fetch ?? env.fetch);
  const loading = requester({ ...options, fetch: base }, probed);
  /** @type {typeof globalThis.fetch} */
  const load = (input, init) => {
    const members = membersOf(init);
    const own = members.signal ?? signal ?? memberOf("signal", input, members);
    return loading(input, { ...members, signal: own ?? null });
  };
  const files = new CachedFiles(load, { headers, credentials, origins, cache, cacheKey });
  /** @type {typeof globalThis.fetch} */
  const fetch = async (input, init) => files.add(await load(input, init));
  const useCustomCache = cache !== "none";
  const unused = Object.fromEntries(CACHES.filter((name) => name in env).map((name) => [name, false]));
  const changed = { fetch, ...unused, useCustomCache, ...(useCustomCache && { customCache: files }) };
  const settings = /** @type {Record<string, unknown>} */ (/** @type {unknown} */ (env));
  const original = Object.fromEntries(Object.keys(changed).map((name) => [name, settings[name]]));
  Object.assign(env, changed);

  let isConnected = true;
  const disconnect = () => {
    if (!isConnected) return;
    isConnected = false;
    connections.delete(env);
    probed.close();
    for (const [name, value] of Object.entries(changed)) {
      // A setting that the app has changed since then is not restored.
      if (settings[name] === value) settings[name] = original[name];
    }
  };
  connections.set(env, disconnect);
  return disconnect;
}
