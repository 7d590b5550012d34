// What a page calls first: each test runs in a new page, which has none of the parts of the module that are loaded on
// demand.
import { Failures } from "./common.js";

const { StreamingLoader, listCached, openFile } = await import("/pkg/weightstream.js");

const MODEL = "/fixtures/safetensors/basic.safetensors";

async function readsBlob(options, readsIndex) {
  const failures = new Failures();
  const loader = await StreamingLoader.open(MODEL, { cache: "none", ...options });
  if (readsIndex) await loader.loadIndex();
  const blob = await loader.toBlob();
  const bytes = await blob.arrayBuffer();
  failures.same("its length", bytes.byteLength, blob.size);
  failures.same("its tensors", (await (await StreamingLoader.open(blob)).loadIndex()).length > 0, true);
  loader.close();
  return failures;
}

export const readsBlobOfModel = () => readsBlob({}, false);
export const readsBlobOfModelWithIndex = () => readsBlob({}, true);
export const readsBlobOfModelInWorker = () => readsBlob({ inWorker: true }, false);

export async function opensFile() {
  const failures = new Failures();
  const file = await openFile(MODEL, { cache: "none" });
  const bytes = await file.bytes();
  failures.same("its length", bytes.byteLength, file.byteLength);
  file.close();
  return failures;
}

export async function listsCache() {
  const failures = new Failures();
  failures.same("a list", Array.isArray(await listCached()), true);
  return failures;
}

export async function abortsWhileCodeIsLoaded() {
  const failures = new Failures();
  const { fetch } = globalThis;
  globalThis.fetch = (url, init) => (String(url).endsWith("_extras.wasm") ? stalled(init.signal) : fetch(url, init));
  const loader = await StreamingLoader.open(MODEL, { cache: "none" });
  const blob = await loader.toBlob();
  const reading = blob.arrayBuffer();
  setTimeout(() => loader.close(), 100);
  await failures.rejects("a read that waits for code", reading, "closed");
  return failures;
}

const stalled = (signal) =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
