// The three ways to choose a model: the demo, an address, files of one's own.

import { byId } from "./elements.js";

export const DEMO = "models/all-MiniLM-L6-v2.apr";

/**
 * Calls `open(source, label, address)` for whatever the visitor chooses.
 * `address` is what a link to this choice would say; local files have none.
 */
export function listenForSources(open, complain) {
  const openAddress = (address) => {
    if (!URL.canParse(address, location.href)) {
      const message = `“${address}” is not an address. It should look like https://example.org/model.apr.`;
      complain(message);
      return new TypeError(message);
    }
    return open(new URL(address, location.href).href, nameOf(address), address);
  };
  const openFiles = async (files) => {
    if (files.length === 0) return;
    const sorted = await manifestFirst([...files]);
    open(sorted, sorted[0].name);
  };

  byId("choose-demo").addEventListener("click", () => openAddress(DEMO));
  byId("url-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const address = byId("url").value.trim();
    if (address) openAddress(address);
    else byId("url").focus();
  });
  byId("file-input").addEventListener("change", (event) => {
    openFiles(event.target.files);
  });
  // Choosing the same file again must count as a choice: it may have changed.
  byId("file-input").addEventListener("click", (event) => {
    event.target.value = "";
  });
  listenForDrops(openFiles);

  return { openAddress };
}

function listenForDrops(openFiles) {
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  // Every element entered and left fires: only the balance tells whether the pointer is still over the page.
  let depth = 0;
  const show = (change) => {
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
    openFiles(event.dataTransfer.files);
  });
}

/** A manifest is JSON; the files that it names are not. Without one, the first by name comes first. */
async function manifestFirst(files) {
  const byName = files.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const isJson = await Promise.all(byName.map(async (file) => (await file.slice(0, 1).text()) === "{"));
  const manifest = isJson.indexOf(true);
  if (manifest > 0) byName.unshift(...byName.splice(manifest, 1));
  return byName;
}

/** The last part of an address, to call the model by until it says its own name. */
function nameOf(address) {
  const path = address.split(/[?#]/)[0].replace(/\/+$/, "");
  return decodeURIComponent(path.slice(path.lastIndexOf("/") + 1)) || address;
}
