// A frame of an origin of its own. Its Cross-Origin Storage is that of the page around it, which all frames share.
import * as ws from "/pkg/weightstream.js";
import { mockOf } from "./mock.js";

const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
const sha256 = async (bytes) => hex(await crypto.subtle.digest("SHA-256", bytes));

const asked = (message) => new Promise((resolve) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = ({ data }) => resolve(data);
  parent.postMessage(message, "*", [port2]);
});
const files = { get: (sha256) => asked({ sha256 }), set: (sha256, blob) => asked({ sha256, blob }) };

const log = [];
const install = (method, fails) => {
  const value = method && mockOf(method, files, { fails, log });
  Object.defineProperty(navigator, "crossOriginStorage", { value, configurable: true });
};

/** Waits until a file was stored, or was not. */
async function stored(opened) {
  const isDone = ({ filesStored, error }) => filesStored > 0 || error !== undefined;
  while (!isDone(opened.stats.crossOriginStorage)) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** Loads all tensors, and waits until the file was stored if `waits`. */
async function load(url, options, waits) {
  const loader = await ws.StreamingLoader.open(url, { retry: { attempts: 1, baseDelay: 1 }, ...options });
  const tensors = {};
  for await (const { name, data } of loader.tensors()) tensors[name] = await sha256(data);
  if (waits) await stored(loader);
  const { stats } = loader;
  loader.close();
  return { tensors, stats, log };
}

/** Reads a file of any format. */
async function read(url, options, waits) {
  const file = await ws.openFile(url, options);
  const tensors = { all: await sha256(await file.bytes()) };
  if (waits) await stored(file);
  const { stats } = file;
  file.close();
  return { tensors, stats, log };
}

/** Loads a tensor, and is closed while the rest of the file is loaded. */
async function leave(url, options) {
  const loader = await ws.StreamingLoader.open(url, options);
  for await (const _ of loader.tensors()) break;
  const abort = new AbortController();
  const rest = loader.verify({ signal: abort.signal });
  abort.abort(new Error("stop"));
  const outcome = await rest.then(() => "verified", ({ message }) => message);
  const { stats } = loader;
  loader.close();
  await ws.cachedBytes();
  return { tensors: { outcome }, stats, log };
}

Object.assign(window, { install, load, read, leave, log });

addEventListener("message", async ({ data, ports: [port] }) => {
  try {
    port.postMessage({ value: JSON.stringify(await (0, eval)(data)) });
  } catch (error) {
    port.postMessage({ failure: String(error?.stack ?? error) });
  }
});
parent.postMessage({ isReady: true }, "*");
