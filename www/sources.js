// @ts-check
// The three ways to choose a model: the demo model, a URL, local files.

import { byId, element } from "./elements.js";
import { bytes } from "./format.js";
import { fileUrl, modelsIn, placeOf } from "./hugging-face.js";
import { site } from "./site.js";

/** @import { HubFile } from "./hugging-face.js" */

/**
 * What to open. A function finds the URL; `undefined` if the visitor has to choose one of several.
 *
 * @typedef {string | File[] | ((signal: AbortSignal) => Promise<string | undefined>)} Source
 */

/** @typedef {(source: Source, label: string, address?: string) => Promise<unknown>} Open */

/**
 * Calls `open` for the model that the visitor chooses. `address` is the URL as entered, for a link to this model; local
 * files have none.
 *
 * @param {Open} open
 * @param {(message: string) => void} showError
 */
export function listenForSources(open, showError) {
  const openAddress = (/** @type {string} */ address) => {
    byId("choices").hidden = true;
    if (!URL.canParse(address, location.href)) {
      const message = `“${address}” is not a URL. A URL looks like https://huggingface.co/owner/model.`;
      showError(message);
      return new TypeError(message);
    }
    const url = new URL(address, location.href);
    const place = placeOf(url);
    if (!place) return open(url.href, nameOf(address), address);
    if (place.isFile) return open(fileUrl(place), nameOf(place.path), address);
    const find = async (/** @type {AbortSignal} */ signal) => {
      const models = await modelsIn(place, signal);
      if (models.length === 1) return models[0].url;
      signal.throwIfAborted();
      showChoices(models, openAddress);
      return undefined;
    };
    return open(find, place.repository, address);
  };
  const openFiles = async (/** @type {Iterable<File>} */ list) => {
    const files = [...list];
    if (files.length === 0) return;
    byId("choices").hidden = true;
    const sorted = await manifestFirst(files);
    open(sorted, sorted[0].name);
  };

  byId("choose-demo").addEventListener("click", async () => openAddress((await site).model));
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

/**
 * @param {HubFile[]} models
 * @param {(address: string) => unknown} openAddress
 */
function showChoices(models, openAddress) {
  byId("choices").replaceChildren(...models.map(({ path, byteLength, url }) => {
    const button = element("button", { type: "button" }, path, element("small", {}, bytes(byteLength)));
    button.addEventListener("click", () => openAddress(url));
    return element("li", {}, button);
  }));
  byId("choices").hidden = false;
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
 * Puts the model into the address bar, so that a reload opens it again. Local files have no address.
 *
 * @param {string} [address]
 */
export function remember(address) {
  const url = new URL(location.href);
  if (address === url.searchParams.get("model")) return;
  url.search = "";
  if (address) url.searchParams.set("model", address);
  history.replaceState(null, "", url);
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
