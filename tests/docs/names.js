// What the examples use without declaring it: see names.d.ts. Waits until the worker answers for other hosts.

await navigator.serviceWorker.register("/answer.js");
const isControlled = () => navigator.serviceWorker.controller !== null;
while (!isControlled()) await new Promise((resolve) => setTimeout(resolve, 10));

globalThis.source = "https://example.org/model.gguf";
globalThis.options = {};
// No test can answer the dialog, so a folder of the origin is chosen.
globalThis.showDirectoryPicker = async () =>
  (await navigator.storage.getDirectory()).getDirectoryHandle("chosen", { create: true });
globalThis.button = {
  set onclick(listener) {
    listener();
  },
};
globalThis.isReady = true;
