// What the examples use without declaring it: see names.d.ts. Waits until the worker answers for other hosts.

await navigator.serviceWorker.register("/answer.js");
const isControlled = () => navigator.serviceWorker.controller !== null;
while (!isControlled()) await new Promise((resolve) => setTimeout(resolve, 10));

globalThis.source = "https://example.org/model.gguf";
globalThis.options = {};
globalThis.isReady = true;
