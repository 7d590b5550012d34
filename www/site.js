// @ts-check
// What this copy of the page is served with: the demo model, what else there is beside the page, and what the server
// can do. `cargo xtask demo` writes `demo.json`, for its own server and for a folder.

import { byId, element } from "./elements.js";
import { bytes } from "./format.js";

/**
 * @typedef {object} Site
 * @property {string} name The name of the demo model.
 * @property {string} model The address of its entry, as `weightstream publish` wrote it.
 * @property {string} original The address of the SafeTensors file from which it was published.
 * @property {number} tensorBytes The size of its tensors.
 * @property {number} storedBytes The size of what `weightstream publish` made of them.
 * @property {boolean} computes Whether ONNX Runtime Web is beside the page.
 * @property {string} [documentation] The address of the documentation.
 * @property {boolean} hasRanges Whether the server answers Range requests with parts of files.
 */

const NO_SITE = "There is no demo model here: the server has no demo.json, which “cargo xtask demo” writes. " +
  "Open a URL, a repository or files instead.";

/**
 * Rejects if the page is served without a demo model.
 *
 * @type {Promise<Site>}
 */
export const site = (async () => {
  // One request that also shows whether the server answers Range requests.
  const response = await fetch("demo.json", { headers: { Range: "bytes=0-" } });
  if (!response.ok) throw new Error(NO_SITE);
  return { ...await response.json(), hasRanges: response.status === 206 };
})();

/** Says what the demo model is, links to the documentation, and notes what this server does not offer. */
export async function showSite() {
  /** @type {string[]} */
  const notes = [];
  // A status replaces it once a model is being opened.
  const about = byId("about-demo");
  try {
    const { name, tensorBytes, storedBytes, documentation, hasRanges } = await site;
    const [all, stored] = [bytes(tensorBytes), bytes(storedBytes)];
    byId("race-sizes").textContent = `${all} of tensors`;
    byId("race-stored").textContent = `, in ${stored}`;
    byId("race-model").textContent = name;
    about.textContent = `The demo model is ${name}: ${all} of F32, stored in ${stored} without losing a bit.`;
    if (documentation) {
      byId("project").replaceChildren(element("a", { href: documentation }, "Documentation"));
      byId("project").hidden = false;
    }
    if (!hasRanges) notes.push(NO_RANGES);
  } catch {
    about.textContent = NO_SITE;
    byId("choose-demo", HTMLButtonElement).disabled = true;
    byId("race-start", HTMLButtonElement).disabled = true;
  }
  if (!crossOriginIsolated) notes.push(NOT_ISOLATED);
  byId("server-notes").replaceChildren(...notes.map((note) => element("li", {}, note)));
}

const NO_RANGES = "This server ignores Range requests: each load reads whole files, and starts over after a cut.";

const NOT_ISOLATED = "This page works without cross-origin isolation, whose headers add SharedArrayBuffer: " +
  "Cross-Origin-Opener-Policy: same-origin, Cross-Origin-Embedder-Policy: require-corp.";
