// Run by Node.js, Deno and Bun: a call ends when its signal aborts, even while the module is still being loaded. Prints
// how each call ended as JSON.

import { init, openFile, StreamingLoader } from "weightstream";
import { createFetch } from "weightstream/fetch";

const URL = "https://example.invalid/model.safetensors";
const stalled = new Promise(() => {});
init({ module: stalled }).catch(() => {});

let requests = 0;
const options = {
  cache: "none",
  fetch: async () => {
    requests++;
    return new Response(null, { status: 404 });
  },
};
const calls = {
  open: (signal) => StreamingLoader.open(URL, { ...options, signal }),
  inWorker: (signal) => StreamingLoader.open("model.safetensors", { inWorker: true, signal }),
  openFile: (signal) => openFile(URL, { ...options, signal }),
  createFetch: (signal) => createFetch(options)(URL, { signal }),
};

/** Whether a call rejects with the reason of its signal. */
async function ends(call, isBefore) {
  const controller = new AbortController();
  const reason = new Error("the user left");
  if (isBefore) controller.abort(reason);
  const called = call(controller.signal).catch((error) => error === reason);
  if (!isBefore) setTimeout(() => controller.abort(reason));
  return called;
}

const report = { before: {}, during: {} };
for (const [name, call] of Object.entries(calls)) report.before[name] = await ends(call, true);
report.requestsBefore = requests;
for (const [name, call] of Object.entries(calls)) report.during[name] = await ends(call, false);
console.log(JSON.stringify(report));
