// @ts-check
// The parts of the first screen that need a script, apart from the race: the snippet and the link to the README.

import { byId, partOf } from "./elements.js";

export function prepareOpener() {
  const code = partOf(document, ".snippet code");
  const button = byId("copy", HTMLButtonElement);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent ?? "");
      button.textContent = "Copied";
    } catch {
      // The browser may refuse. Then the visitor copies the selected text.
      getSelection()?.selectAllChildren(code);
      button.textContent = "Selected";
    }
  });
  linkReadme();
}

/** Links to the page of the project once the package names one. Until then, the link leads to the file. */
async function linkReadme() {
  try {
    const { homepage } = await (await fetch("pkg/package.json")).json();
    if (typeof homepage === "string") byId("readme", HTMLAnchorElement).href = homepage;
  } catch {
    // Without the name, the link stays as it is.
  }
}
