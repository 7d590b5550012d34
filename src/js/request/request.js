// @ts-check
// What a call of `fetch` asks for, and which calls only the platform's own `fetch` can answer.

/** The members of the second argument of `fetch`. Those of an object with a class are not its own. */
const MEMBERS = [
  "body", "cache", "credentials", "dispatcher", "duplex", "headers", "integrity", "keepalive", "method", "mode",
  "priority", "redirect", "referrer", "referrerPolicy", "signal", "window",
];

/**
 * The members of the second argument of `fetch`, each read once.
 *
 * @param {any} init
 * @returns {RequestInit}
 */
export function membersOf(init) {
  /** @type {Record<string, any>} */
  const members = { ...init };
  for (const name of MEMBERS) {
    const value = init?.[name];
    if (value !== undefined) members[name] = value;
  }
  return members;
}

/**
 * What a member is for a request: as it is given, otherwise that of a `Request`.
 *
 * @template {"headers" | "method" | "signal"} Name
 * @param {Name} name
 * @param {unknown} input
 * @param {RequestInit} members
 * @returns {RequestInit[Name]}
 */
export const memberOf = (name, input, members) =>
  members[name] !== undefined ? members[name] : input instanceof Request ? input[name] : undefined;

/**
 * The members that say how a request is made, and not what is requested.
 *
 * @param {RequestInit} members
 * @param {Request} request
 * @returns {RequestInit}
 */
export function manner({ body, cache, credentials, headers, integrity, method, signal, ...others }, request) {
  const { mode, referrer, referrerPolicy, keepalive } = request;
  return {
    ...others,
    ...(mode !== "navigate" && { mode }),
    redirect: "follow",
    ...(referrer !== "about:client" && { referrer }),
    referrerPolicy,
    ...(keepalive && { keepalive }),
  };
}

/**
 * The credentials mode that the caller chose. A `Request` does not say whether its default was chosen.
 *
 * @param {unknown} input
 * @param {RequestInit} members
 */
export function credentialsOf(input, { credentials }) {
  if (credentials !== undefined) return credentials;
  return input instanceof Request && input.credentials !== "same-origin" ? input.credentials : undefined;
}

/** Headers whose answer depends on what the client has already. */
const CONDITIONS = ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"];

/**
 * Why only the platform's own `fetch` can answer a GET request; undefined if a file can be opened for it.
 *
 * @param {Request} request
 * @param {Headers} headers
 */
export function ordinaryOption({ url, mode, redirect, integrity, cache }, headers) {
  if (!/^https?:/.test(url)) return "the scheme of the URL";
  if (mode === "no-cors") return "`mode`";
  if (redirect !== "follow") return "`redirect`";
  if (integrity) return "`integrity`";
  if (cache === "only-if-cached") return "`cache`";
  const range = headers.get("Range");
  if (range !== null && !rangeOf(range)) return "the header Range";
  const condition = CONDITIONS.find((name) => headers.has(name));
  return condition && `the header ${condition}`;
}

/** A single range of bytes: from a first byte, or the last bytes of the file. */
const RANGE = /^bytes=(?:(\d{1,15})-(\d+)?|-(\d+))$/i;

/**
 * The range that a header asks for: bytes `[start, end)`, or the last `suffix` bytes. Undefined for what a server
 * ignores or answers in several parts.
 *
 * @param {string} header
 */
export function rangeOf(header) {
  const [text, first, last, suffix] = RANGE.exec(header) ?? [];
  if (text === undefined || Number(last) < Number(first)) return undefined;
  if (suffix !== undefined) return { suffix: Number(suffix) };
  // Some clients ask for the rest of a file with the largest number that they have.
  const end = last === undefined ? Infinity : Number(last) + 1;
  return { start: Number(first), end: Number.isSafeInteger(end) ? end : Infinity };
}

/**
 * The bytes of a file that a range asks for: `[start, end)`, which is empty or negative if there are none.
 *
 * @param {NonNullable<ReturnType<typeof rangeOf>>} range
 * @param {number | undefined} byteLength
 * @returns {[start: number, end: number | undefined]}
 */
export function within({ start, end = Infinity, suffix = 0 }, byteLength) {
  if (byteLength === undefined) return [Number(start), end === Infinity ? undefined : end];
  return [start ?? Math.max(0, byteLength - suffix), Math.min(end, byteLength)];
}

/**
 * Whether a range may be answered with bytes of this version of the file.
 *
 * @param {string | null} condition `If-Range`.
 * @param {Headers | undefined} headers Of the response.
 */
export function isSameVersion(condition, headers) {
  if (condition === null) return true;
  const isTag = /^(W\/)?"/.test(condition);
  return condition === headers?.get(isTag ? "ETag" : "Last-Modified") && !condition.startsWith("W/");
}
