// @ts-check
// The requests behind `weightstream/fetch` and the runtimes that take a `fetch`.
import { answer, firstByteOf, noSuchBytes } from "./answer.js";
import { invalid } from "../loader/error.js";
import { Exchange } from "./exchange.js";
import { openFile, openHead } from "../file/file.js";
import { commonSignature, filesOptions } from "../options/options.js";
import {
  credentialsOf, isSameVersion, manner, memberOf, membersOf, ordinaryOption, rangeOf,
} from "./request.js";
import { requestPolicy } from "./request_policy.js";
import { asSeen } from "./response.js";
import { baseOf, tryUrl, urlOf } from "../source/url.js";

/** @import { FetchOptions } from "./fetch.js" */
/** @import { OpenFileOptions } from "../weightstream.js" */
/** @import { Opened } from "./answer.js" */
/** @import { ProbedFiles } from "./probed.js" */
/** @import { Sent } from "./request_policy.js" */

/**
 * A `fetch` whose GET requests are made by `openFile`. What `openFile` cannot answer as `fetch` does is passed to the
 * ordinary `fetch`.
 *
 * @param {FetchOptions} [given]
 * @param {ProbedFiles} [probed] Keeps a file open after a request for its first byte, for the request that follows.
 * @returns {typeof globalThis.fetch}
 */
export function requester(given = {}, probed) {
  const sentTo = requestPolicy(checkOptions(given));
  const { fetch: base, headers: _, credentials: __, origins: ___, ...options } = given;
  const ordinaryFetch = /** @type {typeof fetch} */ (base ?? ((input, init) => globalThis.fetch(input, init)));
  const signatureUrl = options.signature && urlOf(options.signature.url);

  return async (input, init) => {
    const members = membersOf(init);
    const method = memberOf("method", input, members) ?? "GET";
    const signal = memberOf("signal", input, members);
    if (String(method).toUpperCase() !== "GET") { // a new Request would take its body
      const url = input instanceof Request ? input.url : tryUrl(String(input), baseOf())?.href;
      return ordinaryFetch(...withCommon(input, init, members, url ? sentTo(url) : {}));
    }
    // The request must not listen to the signal, which may outlive it.
    const request = new Request(input, Object(init) === init ? { ...members, signal: null } : init);
    const sent = sentTo(request.url);
    const ordinary = () => ordinaryFetch(...withCommon(input, init, members, sent));
    const headers = merged(sent, request.headers);
    const left = ordinaryOption(request, headers);
    if (left) {
      if (signatureUrl === undefined) return ordinary();
      throw invalid(`${left} of a request cannot be combined with \`signature\`, which fetch() does not verify`);
    }
    const range = rangeOf(taken(headers, "Range") ?? "");
    const condition = taken(headers, "If-Range");
    const isProbe = probed !== undefined && range?.start === 0 && range.end === 1;
    const isCached = !["no-store", "reload", "no-cache"].includes(request.cache);

    const send = (/** @type {any} */ url, /** @type {RequestInit | undefined} */ given) =>
      ordinaryFetch(url, { ...manner(members, request), ...given });
    const exchange = new Exchange(send, signal, signatureUrl);
    const url = request.url.replace(/#.*$/s, "");
    /** @type {OpenFileOptions} */
    const how = {
      ...options,
      hub: options.hub ?? null, // a fetch asks for no list of files first
      // A probe is answered from the cache too, so that a runtime which probes a file works offline.
      ...(!isCached && !(isProbe && request.cache === "no-store") && { cache: "none" }),
      credentials: credentialsOf(input, members) ?? sent.credentials,
      headers,
      signal: signal ?? null,
      fetch: exchange.fetch,
    };
    const open = async () => {
      const file = await (isProbe ? openFile(request.url, how) : openHead(request.url, how, firstOf(range)));
      return { file, head: exchange.head, url: exchange.head?.url || url };
    };
    /** @type {Opened} */
    let opened;
    try {
      opened = (!range && probed?.take(request.url, headers)) || (await open());
    } catch (error) {
      const refusal = exchange.refusalOf(error, range !== undefined);
      if (refusal) return refusal.url ? refusal : asSeen(refusal, { url }); // a `fetch` of the app may state none
      exchange.end();
      if (isUnanswerable(error) && signatureUrl === undefined) return ordinary();
      throw error;
    }
    const isRangeRefused = exchange.isRangeRefused;
    exchange.end();
    if (isProbe && opened.file.byteLength) {
      const response = await firstByteOf(opened);
      probed.keep(request.url, headers, opened);
      return response;
    }
    const isRange = range && opened.head?.status !== 200 && isSameVersion(condition, opened.head?.headers);
    const isVerified = signatureUrl !== undefined;
    // A server that states an empty file, or that there are no such bytes, has refused. Its own answer has all headers.
    const response = isRangeRefused && !isVerified ? undefined : answer(opened, isRange ? range : undefined, signal);
    if (response) return response;
    opened.file.close();
    return isVerified ? noSuchBytes(opened) : ordinary();
  };
}

/** @param {unknown} given */
function checkOptions(given) {
  const { signal, type, digest, ...options } = filesOptions(given);
  for (const [name, value] of Object.entries({ signal, type, digest })) {
    if (value !== undefined) throw invalid(`\`${name}\` is an option of openFile(), and not of a fetch for all files`);
  }
  if (options.signature) commonSignature(options.signature, "signature");
  return options;
}

/**
 * The arguments of `fetch` with the headers and credentials that all requests to an origin have. Those of the request
 * itself take precedence.
 *
 * @param {RequestInfo | URL} input
 * @param {RequestInit | undefined} init
 * @param {RequestInit} members
 * @param {Sent} sent
 * @returns {Parameters<typeof globalThis.fetch>}
 */
function withCommon(input, init, members, sent) {
  if (!sent.headers && !sent.credentials) return init === undefined ? [input] : [input, init];
  const credentials = credentialsOf(input, members) ?? sent.credentials;
  const headers = merged(sent, new Headers(memberOf("headers", input, members)));
  return [input, { ...members, headers, ...(credentials && { credentials }) }];
}

/**
 * @param {Sent} sent
 * @param {Headers} own
 */
function merged({ headers: common }, own) {
  const headers = new Headers(common);
  own.forEach((value, name) => headers.set(name, value));
  return headers;
}

/**
 * Removes a header.
 *
 * @param {Headers} headers
 * @param {string} name
 */
function taken(headers, name) {
  const value = headers.get(name);
  headers.delete(name);
  return value;
}

/**
 * The bytes whose request opens a file. For its last bytes, its length must be known.
 *
 * @param {ReturnType<typeof rangeOf>} range
 * @returns {[start: number, end: number]}
 */
function firstOf(range) {
  if (!range) return [0, Infinity];
  return range.start === undefined ? [0, 1] : [range.start, range.end];
}

/**
 * Whether the server answers Range requests in a way that no file can be read with. `fetch` sends none.
 *
 * @param {any} error
 */
const isUnanswerable = (error) => error?.code === "RANGE_UNSUPPORTED" || error?.status === 416;
