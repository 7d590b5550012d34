// The background of an extension: the check itself, and an offscreen page that can run it, too.

import "./relative.js";

globalThis.openOffscreenPage = () =>
  chrome.offscreen.createDocument({ url: "app/offscreen.html", reasons: ["WORKERS"], justification: "loads a model" });
