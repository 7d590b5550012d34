// @ts-check
// URLs as callers pass them, and their absolute form.
import { getter, invalidValue, suggestion, tryGet } from "../options/check.js";
import { invalid } from "../loader/error.js";
import { ownUrlOf } from "../module/location.js";

const hrefOf = getter("URL", "href");

/**
 * The text of a URL, as a string or as an object; undefined for anything else.
 *
 * @param {unknown} url
 * @returns {string | undefined}
 */
export const textOf = (url) => (typeof url === "string" ? url : tryGet(hrefOf, url));

/**
 * @param {unknown} url
 * @param {string} [name]
 * @returns {string}
 */
export function urlOf(url, name = "url") {
  const text = textOf(url);
  if (text === undefined) throw invalidValue(name, url, "a URL");
  return absolute(text, name);
}

const SCHEMES = ["http", "https", "file", "blob", "data", "hf"];

/** Schemes that no platform fetches. An app's own schemes cannot be known here. */
const STORAGE_SCHEMES = ["s3", "gs", "gcs", "az", "abfs", "abfss", "ftp", "sftp", "ssh", "git", "ipfs", "oci"];

/**
 * The absolute form of a URL, relative to the page or to the script of the worker.
 *
 * @param {string} url
 * @param {string} name The name of the argument.
 * @param {boolean} [isFetchedByCaller] Whether a `fetch` of the caller gets the URL, which may know any scheme.
 */
export function absolute(url, name, isFetchedByCaller = false) {
  if (url.trim() === "") throw invalid(`\`${name}\` is an empty string, but must be a URL`);
  const scheme = schemeOf(url);
  const fault = isFetchedByCaller ? undefined : schemeFault(url, scheme);
  const isUrl = isFetchedByCaller || SCHEMES.includes(scheme.toLowerCase()) || /^\s*[^:/]+:\/\//.test(url);
  // A path may have a colon: `model:v1.safetensors`.
  const own = ownUrlOf(url, scheme === "" || (fault === undefined ? !isUrl : undefined));
  if (own !== undefined) return own;
  if (fault !== undefined) throw invalid(fault);
  const base = baseOf();
  try {
    return new URL(url, base).href;
  } catch (cause) {
    if (scheme || isBase(base)) throw invalid(`"${url}" is not a valid URL`, cause);
    const where = base ? `"${base}", the URL of this page or worker, cannot be a base` : "there is no page with a URL";
    throw invalid(`"${url}" is a relative URL, but ${where}: pass an absolute URL`, cause);
  }
}

/** The base of relative URLs: that of the page, or of the script of the worker. */
export const baseOf = () => globalThis.document?.baseURI ?? globalThis.location?.href;

/**
 * The URL that a text is, if it is one.
 *
 * @param {string} text
 * @param {string} [base]
 */
export function tryUrl(text, base) {
  try {
    return new URL(text, base);
  } catch {
    return undefined;
  }
}

/**
 * The scheme of an absolute URL, otherwise an empty string. A single letter is the drive of a path.
 *
 * @param {string} url
 */
const schemeOf = (url) => /^\s*([a-z][a-z\d+.-]+):/i.exec(url)?.[1] ?? "";

/**
 * What is wrong with a URL that cannot be fetched or has a mistyped scheme.
 *
 * @param {string} url
 * @param {string} scheme
 * @returns {string | undefined}
 */
function schemeFault(url, scheme) {
  const lower = scheme.toLowerCase();
  if (SCHEMES.includes(lower)) return undefined;
  if (/^\s*[\w.-]+:\d+(\/|$)/.test(url)) return `"${url}" has no scheme: did you mean "http://${url.trim()}"?`;
  const has = `"${url}" has the scheme \`${scheme}\``;
  if (STORAGE_SCHEMES.includes(lower)) return `${has}, which cannot be fetched: pass the https URL of the file`;
  const similar = scheme && suggestion(scheme, SCHEMES);
  return similar ? has + similar : undefined;
}

/** @param {string | undefined} base */
const isBase = (base) => tryUrl("a", base) !== undefined;
