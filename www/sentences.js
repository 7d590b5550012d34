// @ts-check
// The sentences on the page, and how similar they are.

import { similarity } from "./batch.js";
import { byId, element } from "./elements.js";

const LIST = [
  "She practises the violin every evening.",
  "The concert was sold out within an hour.",
  "A longer string makes a lower tone.",
  "The weather is lovely today.",
  "The server answers Range requests with status 206.",
];

/** The two sentences of the form, then those of the list. */
export function currentTexts() {
  const [a, b] = ["sentence-a", "sentence-b"].map((id) => byId(id, HTMLInputElement).value.trim());
  return [a, b, ...LIST];
}

/**
 * Shows the similarity of the first text to each other one, or none before the embeddings are known.
 *
 * @param {readonly string[]} texts What `currentTexts` returned.
 * @param {readonly Float32Array[]} [embeddings]
 */
export function showSimilarities(texts, embeddings) {
  const value = (/** @type {number} */ at) =>
    !embeddings || texts[0] === "" || texts[at] === "" ? undefined : similarity(embeddings[0], embeddings[at]);
  const ofPair = value(1);
  byId("similarity-value").textContent = ofPair === undefined ? "–" : shown(ofPair);
  byId("similarity-bar").replaceChildren(bar(ofPair));
  const list = LIST.map((text, at) => ({ text, value: value(at + 2) }));
  list.sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
  byId("similar").replaceChildren(...list.map(({ text, value }) => listItem(text, value)));
}

/**
 * @param {string} text
 * @param {number} [value]
 */
function listItem(text, value) {
  const number = element("span", { class: "number" }, value === undefined ? "–" : shown(value));
  return element("li", {}, element("span", { class: "text" }, text), bar(value), number);
}

/** @param {number} [value] */
function bar(value) {
  const filled = element("span", {});
  filled.style.width = `${Math.max(0, value ?? 0) * 100}%`;
  return element("span", { class: "bar", "aria-hidden": "true" }, filled);
}

/** @param {number} value */
const shown = (value) => value.toFixed(3).replace("-", "−");
