// @ts-check
// What the page says of the model: a status, or an error, which stays visible when the page is scrolled.

import { LoadError } from "./pkg/weightstream.js";
import { byId, element } from "./elements.js";

/** @param {string} sentence */
export function showStatus(sentence) {
  byId("status").textContent = sentence;
}

/**
 * @param {unknown} error
 * @param {string} [sentence]
 */
export function showError(error, sentence = "") {
  showStatus(sentence);
  const isError = error instanceof Error;
  const message = element("p", {}, isError ? error.message : String(error));
  const code = element("small", {}, error instanceof LoadError ? error.code : isError ? error.name : "");
  const dismiss = element("button", { type: "button", class: "quiet", "aria-label": "Dismiss" }, "×");
  dismiss.addEventListener("click", clearError);
  byId("error").replaceChildren(element("div", {}, message, code), dismiss);
}

export function clearError() {
  byId("error").replaceChildren();
}
