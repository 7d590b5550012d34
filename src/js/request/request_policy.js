// @ts-check
// Which requests get the headers and the credentials of a call: only those to the origins that they were given for.
import { invalid } from "../loader/error.js";

/**
 * The options of a call that concern whom a request is sent to.
 *
 * @typedef {{
 *   headers?: [name: string, value: string][] | undefined, credentials?: RequestCredentials | undefined,
 *   origins?: string[] | undefined,
 * }} Given
 */

/**
 * What a request is sent with; nothing for an origin that the options were not given for.
 *
 * @typedef {Pick<Given, "headers" | "credentials">} Sent
 */

/**
 * Returns what requests for a URL are sent with. Without the option `origins`, headers and credentials go to the origin
 * of `url`, if the call has such a URL, and otherwise to that of the page.
 *
 * @param {Given} given
 * @param {string} [url]
 * @returns {(url: string) => Sent}
 */
export function requestPolicy({ headers, credentials, origins }, url) {
  const name = headers?.length ? "headers" : credentials === "include" && "credentials";
  const own = url ?? pageOrigin();
  if (name && !origins && own === undefined) {
    throw invalid(`\`${name}\` needs \`origins\`, the origins that get it: there is no page whose origin it would be`);
  }
  const allowed = new Set(origins ?? [own && originOf(own)]);
  return (url) => (allowed.has(originOf(url)) ? { headers, credentials } : {});
}

/**
 * The origin of a URL. Unlike `origin` of `URL`, it distinguishes those of an app's own schemes.
 *
 * @param {string} url
 */
export function originOf(url) {
  const { protocol, host } = new URL(url);
  return `${protocol}//${host}`;
}

/** The origin of the page or worker, if it has one. */
function pageOrigin() {
  const { origin = globalThis.location?.origin } = globalThis;
  return origin === undefined || origin === "null" ? undefined : origin;
}
