// @ts-check
// The parts of the first screen that need a script, apart from the race: the snippet.

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
}
