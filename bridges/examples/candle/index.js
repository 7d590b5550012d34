// @ts-check
// Loads all-MiniLM-L6-v2 from `?model=`, a folder with the weights, config.json and tokenizer.json, and compares
// sentences. `?weights=` is the file of the weights in it.
import init, { Embedder } from "./pkg/candle_example.js";
import { Tokenizer } from "./npm/tokenizers.min.mjs";

const SENTENCES = [
  "A man is playing a guitar.",
  "Someone is playing a musical instrument.",
  "The weather is lovely today.",
];

const query = new URLSearchParams(location.search);
const model = new URL(query.get("model") ?? "model/", location.href);
const status = /** @type {HTMLElement} */ (document.querySelector("#status"));

try {
  const [, config, tokenizer] = await Promise.all([init(), fetchText("config.json"), fetchText("tokenizer.json")]);
  const start = performance.now();
  const embedder = await Embedder.open(new URL(query.get("weights") ?? "model.apr", model).href, config);
  const loadedMs = performance.now() - start;
  const encoder = new Tokenizer(JSON.parse(tokenizer), {});
  const encode = (/** @type {string} */ text) => Uint32Array.from(encoder.encode(text).ids);
  const embeddings = SENTENCES.map((text) => embedder.embed(encode(text)));
  const cached = embedder.cachedBytes > 0 ? `, ${(embedder.cachedBytes / 1e6).toFixed(1)} MB from the cache` : "";
  for (const message of embedder.missing) console.warn(message);
  status.textContent = `Loaded in ${Math.round(loadedMs)} ms${cached}. Computed ${SENTENCES.length} embeddings in ` +
    `${Math.round(performance.now() - start - loadedMs)} ms.`;
  SENTENCES.forEach((text, at) => addRow(text, similarity(embeddings[0], embeddings[at])));
  // For the console.
  Object.assign(globalThis, { embed: (/** @type {string} */ text) => [...embedder.embed(encode(text))] });
} catch (error) {
  status.textContent = `Error: ${error instanceof Error ? error.message : error}`;
}

/** @param {string} name */
async function fetchText(name) {
  const response = await fetch(new URL(name, model));
  if (!response.ok) throw new Error(`${response.url} has the status ${response.status}`);
  return response.text();
}

/**
 * The cosine of the angle between two vectors of length 1.
 *
 * @param {Float32Array} a
 * @param {Float32Array} b
 */
function similarity(a, b) {
  return a.reduce((sum, value, at) => sum + value * b[at], 0);
}

/**
 * @param {string} text
 * @param {number} value
 */
function addRow(text, value) {
  const row = /** @type {HTMLTableElement} */ (document.querySelector("table")).tBodies[0].insertRow();
  row.insertCell().textContent = text;
  row.insertCell().textContent = value.toFixed(3);
}
