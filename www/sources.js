// @ts-check
// The three ways to choose a model: the demo model, a URL, local files.

import { byId } from "./elements.js";

/** @typedef {(source: string | File[], label: string, address?: string) => Promise<unknown>} Open */

export const DEMO = "models/all-MiniLM-L6-v2.apr";

/**
 * Calls `open` for the model that the visitor chooses. `address` is the URL as entered, for a link to this model; local
 * files have none.
 *
 * @param {Open} open
 * @param {(message: string) => void} showError
 */
export function listenForSources(open, showError) {
  const openAddress = (/** @type {string} */ address) => {
    if (!URL.canParse(address, location.href)) {
      const message = `“${address}” is not a URL. A URL looks like https://example.org/model.apr.`;
      showError(message);
      return new TypeError(message);
    }
    return open(new URL(address, location.href).href, nameOf(address), address);
  };
  const openFiles = async (/** @type {Iterable<File>} */ list) => {
    const files = [...list];
    if (files.length === 0) return;
    const sorted = await manifestFirst(files);
    open(sorted, sorted[0].name);
  };

  byId("choose-demo").addEventListener("click", () => openAddress(DEMO));
  byId("url-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const input = byId("url", HTMLInputElement);
    const address = input.value.trim();
    if (address) openAddress(address);
    else input.focus();
  });
  const fileInput = byId("file-input", HTMLInputElement);
  fileInput.addEventListener("change", () => {
    openFiles(fileInput.files ?? []);
  });
  // The same file can be chosen again: it may have changed.
  fileInput.addEventListener("click", () => {
    fileInput.value = "";
  });
  listenForDrops(openFiles);

  return { openAddress };
}

/** @param {(files: Iterable<File>) => void} openFiles */
function listenForDrops(openFiles) {
  const hasFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files");
  // Every element that is entered or left fires an event. Their balance is 0 when the pointer has left the page.
  let depth = 0;
  const show = (/** @type {number} */ change) => {
    depth = change === 0 ? 0 : Math.max(0, depth + change);
    document.documentElement.toggleAttribute("data-dragging", depth > 0);
  };
  addEventListener("dragenter", (event) => hasFiles(event) && show(+1));
  addEventListener("dragleave", (event) => hasFiles(event) && show(-1));
  addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    show(0);
    openFiles(event.dataTransfer?.files ?? []);
  });
}

/**
 * Sorts files by name, with the manifest first. A manifest is JSON; the files that it names are not.
 *
 * @param {File[]} files
 */
async function manifestFirst(files) {
  const byName = files.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const isJson = await Promise.all(byName.map(async (file) => (await file.slice(0, 1).text()) === "{"));
  const manifest = isJson.indexOf(true);
  if (manifest > 0) byName.unshift(...byName.splice(manifest, 1));
  return byName;
}

/**
 * The last part of an address: the name of a model until its metadata is loaded.
 *
 * @param {string} address
 */
function nameOf(address) {
  const path = address.split(/[?#]/)[0].replace(/\/+$/, "");
  return decodeURIComponent(path.slice(path.lastIndexOf("/") + 1)) || address;
}
