// Loads signed models, as a web app does.
import { StreamingLoader, clearCache, openFile } from "weightstream";
import { createFetch } from "/pkg/weightstream.fetch.js";
import { ioHandler } from "/pkg/weightstream.tfjs.js";
import { ArtifactCache, prefill } from "/pkg/weightstream.tvmjs.js";
import { modelBlobs } from "/pkg/weightstream.wllama.js";
import { wrongVerdicts } from "./verdicts.js";

const RETRY = { attempts: 3, baseDelay: 1, stallTimeout: 5000 };

const hex = async ({ data }) =>
  Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", data)), (byte) => byte.toString(16).padStart(2, "0"))
    .join("");

const pemBytes = (pem) => Uint8Array.from(atob(pem.replace(/-----[^-]*-----/g, "")), (char) => char.charCodeAt(0));

const cryptoKey = (pem, extractable = true) =>
  crypto.subtle.importKey("spki", pemBytes(pem), { name: "ECDSA", namedCurve: "P-256" }, extractable, ["verify"]);

// The forms of a public key that the option `publicKey` accepts.
const FORMS = {
  pem: async (pem) => pem,
  bytes: async (pem) => pemBytes(pem),
  buffer: async (pem) => pemBytes(pem).buffer,
  cryptoKey: (pem) => cryptoKey(pem),
  notExtractable: (pem) => cryptoKey(pem, false),
  jwk: async (pem) => crypto.subtle.exportKey("jwk", await cryptoKey(pem)),
};

// The forms of a certificate that the option `certificateChain` accepts.
const ROOT_FORMS = {
  list: (pem) => [pem],
  der: pemBytes,
  buffer: (pem) => [pemBytes(pem).buffer],
  pemBytes: (pem) => new TextEncoder().encode(pem),
  several: (pem) => `Its text.\n${pem}${pem}`,
};

const open = async (address, { form, rootForm, ...options }) => {
  const { signature } = options;
  if (form) signature.publicKey = await FORMS[form](signature.publicKey);
  if (rootForm) signature.certificateChain = ROOT_FORMS[rootForm](signature.certificateChain);
  return StreamingLoader.open(address, { retry: RETRY, cache: "none", ...options });
};

// Loads every tensor of a model one by one, its first rows, and all at once. Returns their digests and what was
// verified.
globalThis.load = async (address, options) => {
  const loader = await open(address, options);
  const single = {};
  const verified = new Set();
  for (const { name } of await loader.loadIndex()) {
    const tensor = await loader.loadTensor(name);
    single[name] = await hex(tensor);
    verified.add(tensor.verified);
    verified.add((await loader.loadTensor(name, { rows: [0, 1] })).verified);
  }
  const streamed = {};
  for await (const tensor of loader.tensors()) {
    streamed[tensor.name] = await hex(tensor);
    verified.add(tensor.verified);
  }
  verified.add(await loader.verify());
  const { bytesReceived, bytesFromCache, workersError = null } = loader.stats;
  loader.close();
  return { single, streamed, verified: [...verified], bytesReceived, bytesFromCache, workersError };
};

// The code and message of the error with which a model does not open.
globalThis.failure = async (address, options) => {
  try {
    (await open(address, options)).close();
    return "no error";
  } catch ({ code, message }) {
    return `${code}: ${message}`;
  }
};

// The server sends what was signed until the model is open, and other bytes afterwards.
globalThis.changedLater = async (address, options) => {
  let isOpen = false;
  const fetch = async (input, init) => {
    const response = await globalThis.fetch(input, init);
    if (!isOpen || String(input) !== address) return response;
    const bytes = new Uint8Array(await response.arrayBuffer());
    bytes[bytes.length >> 1] ^= 1;
    return new Response(bytes, response);
  };
  const loader = await open(address, { ...options, fetch });
  isOpen = true;
  try {
    await loader.loadTensor("second");
    return "no error";
  } catch ({ code, message }) {
    return `${code}: ${message}`;
  } finally {
    loader.close();
  }
};

globalThis.text = async (address, options) => {
  try {
    const file = await openFile(address, { retry: RETRY, cache: "none", ...options });
    const text = await file.text();
    file.close();
    return text;
  } catch ({ code }) {
    return code;
  }
};

// A Blob has a name only if it is a File.
globalThis.loadFile = async (address, options) => {
  const file = new File([await (await fetch(address)).blob()], "model.safetensors");
  return globalThis.load(file, options);
};

globalThis.clearCache = clearCache;

// The result of a call, or the code of its error; with the message if the call is wrong.
const outcome = async (call) => {
  try {
    return await call();
  } catch ({ code, message }) {
    return code === "INVALID_ARGUMENT" ? `${code}: ${message}` : code;
  }
};

globalThis.fetched = (address, options) =>
  outcome(async () => (await createFetch({ retry: RETRY, cache: "none", ...options })(address)).text());

globalThis.blobs = (address, options) =>
  outcome(async () => {
    const blobs = await modelBlobs(address, { retry: RETRY, cache: "none", ...options });
    const text = await blobs[0].text();
    blobs.close();
    return text;
  });

globalThis.tensorflow = (address, options) => outcome(() => ioHandler(address, options).load());
globalThis.artifacts = (_, options) => outcome(() => new ArtifactCache(options));
globalThis.prefilled = (address, options) => outcome(() => prefill(address, options));

// Starts a service worker that trusts a key and a root, and waits until it controls this page.
globalThis.startServiceWorker = async (trust) => {
  const controlled = new Promise((resolve) => (navigator.serviceWorker.oncontrollerchange = resolve));
  await navigator.serviceWorker.register(`/service_worker.js?${new URLSearchParams(trust)}`, { type: "module" });
  await controlled;
};

globalThis.endServiceWorker = async () => {
  for (const registration of await navigator.serviceWorker.getRegistrations()) await registration.unregister();
};

const ask = (message) =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => resolve(data);
    navigator.serviceWorker.controller.postMessage(message, [port2]);
  });

// What a request gets that the service worker answers, with the code of the error that the worker has.
globalThis.served = async (path) => {
  try {
    return await (await fetch(`/served/${path}`)).text();
  } catch ({ name }) {
    return `${name} ${await ask({})}`;
  }
};

globalThis.inServiceWorker = (address) => ask({ address });

// The verdicts that differ from those of the reference.
globalThis.wrongVerdictsOfCases = async () => {
  const [cases, key, model] = await Promise.all([
    fetch("/fixtures/cases.json").then((response) => response.json()),
    fetch("/fixtures/signing.pem").then((response) => response.text()),
    fetch("/fixtures/m/model.safetensors").then((response) => response.arrayBuffer()),
  ]);
  return wrongVerdicts((url, options) => StreamingLoader.open(url, options), cases, model, key);
};
