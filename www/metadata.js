// What a model says of itself, as a list of terms. Objects inside are spelled with dots, long lists are shortened.

import { breakable, element, terms } from "./elements.js";
import { counted } from "./format.js";

const MAX_ITEMS = 8;
const MAX_CHARACTERS = 300;
// A vocabulary or a tokenizer may sit in here: the page shows the first terms.
const MAX_TERMS = 150;

export function showMetadata(list, { format, version, metadata }) {
  const pairs = [["file format", `${format} ${version}`.trim()]];
  flatten(metadata, "", pairs);
  list.replaceChildren(...terms(pairs.slice(0, MAX_TERMS).map(([term, content]) => [element("span", {}, ...breakable(term)), content])));
  if (pairs.length > MAX_TERMS) {
    list.append(...terms([["…", `${counted(pairs.length - MAX_TERMS, "more term")} not shown`]]));
  }
}

function flatten(object, prefix, pairs) {
  for (const [key, content] of Object.entries(object)) {
    if (content !== null && typeof content === "object" && !Array.isArray(content) && Object.keys(content).length > 0) {
      flatten(content, `${prefix}${key}.`, pairs);
    } else {
      pairs.push([`${prefix}${key}`, written(content)]);
    }
  }
}

function written(content) {
  if (Array.isArray(content)) {
    const items = content.slice(0, MAX_ITEMS).map(written).join(", ");
    return content.length > MAX_ITEMS ? `${items} … (${counted(content.length, "item")})` : items || "none";
  }
  if (content === null) return "null";
  const text = typeof content === "object" ? JSON.stringify(content) : String(content);
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}… (${counted(text.length, "character")})` : text;
}
