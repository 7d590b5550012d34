// @ts-check
// The metadata of a model, as a list of terms. Nested objects are flattened with dots, long lists are truncated.

import { breakable, element, terms } from "./elements.js";
import { counted } from "./format.js";

/** @import { Metadata } from "./pkg/weightstream.js" */

const MAX_ITEMS = 8;
const MAX_CHARACTERS = 300;
// The metadata may contain a vocabulary or a tokenizer: the page shows the first terms.
const MAX_TERMS = 150;

/**
 * @param {HTMLElement} list
 * @param {Metadata} metadata
 */
export function showMetadata(list, { format, version, metadata }) {
  /** @type {[term: string, content: string][]} */
  const pairs = [["file format", `${format} ${version}`.trim()]];
  flatten(metadata, "", pairs);
  const shown = pairs.slice(0, MAX_TERMS);
  list.replaceChildren(...terms(shown.map(([term, content]) => [element("span", {}, ...breakable(term)), content])));
  if (pairs.length > MAX_TERMS) {
    list.append(...terms([["…", `${counted(pairs.length - MAX_TERMS, "more term")} not shown`]]));
  }
}

/**
 * @param {object} object
 * @param {string} prefix
 * @param {[term: string, content: string][]} pairs
 */
function flatten(object, prefix, pairs) {
  for (const [key, content] of Object.entries(object)) {
    const isObject = content !== null && typeof content === "object" && !Array.isArray(content);
    if (isObject && Object.keys(content).length > 0) {
      flatten(content, `${prefix}${key}.`, pairs);
    } else {
      pairs.push([`${prefix}${key}`, written(content)]);
    }
  }
}

/**
 * @param {unknown} content
 * @returns {string}
 */
function written(content) {
  if (Array.isArray(content)) {
    const items = content.slice(0, MAX_ITEMS).map(written).join(", ");
    return content.length > MAX_ITEMS ? `${items} … (${counted(content.length, "item")})` : items || "none";
  }
  if (content === null) return "null";
  const text = typeof content === "object" ? JSON.stringify(content) : String(content);
  if (text.length <= MAX_CHARACTERS) return text;
  return `${text.slice(0, MAX_CHARACTERS)}… (${counted(text.length, "character")})`;
}
