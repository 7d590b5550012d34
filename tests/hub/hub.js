// Loads models from a hub, as a web app does.
import { StreamingLoader, clearCache, openFile, willFit } from "/pkg/weightstream.js";

const RETRY = { attempts: 3, baseDelay: 1, stallTimeout: 5000 };

const hex = async ({ data }) =>
  Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", data)), (byte) => byte.toString(16).padStart(2, "0"))
    .join("");

// Loads every tensor of a model one by one, and all at once. Returns their digests and what was verified.
globalThis.load = async (address, options) => {
  const loader = await StreamingLoader.open(address, { retry: RETRY, cache: "none", ...options });
  const single = {};
  for (const { name } of await loader.loadIndex()) single[name] = await hex(await loader.loadTensor(name));
  const streamed = {};
  for await (const tensor of loader.tensors()) streamed[tensor.name] = await hex(tensor);
  const verified = await loader.verify();
  const { bytesReceived, bytesFromCache, cacheError = null, workersError = null } = loader.stats;
  loader.close();
  return { single, streamed, verified, bytesReceived, bytesFromCache, cacheError, workersError };
};

// The message of the error with which a model does not open.
globalThis.failure = async (address, options) => {
  try {
    (await StreamingLoader.open(address, { retry: RETRY, cache: "none", ...options })).close();
    return "no error";
  } catch ({ code, message }) {
    return `${code}: ${message}`;
  }
};

globalThis.bytes = async (address, options) => {
  const file = await openFile(address, { retry: RETRY, cache: "none", ...options });
  const { byteLength } = await file.bytes();
  file.close();
  return byteLength;
};

globalThis.neededStorage = async (address, options) => (await willFit(address, options)).storage.needed;

globalThis.clearCache = clearCache;
