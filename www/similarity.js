// @ts-check
// The section that computes: the similarity of two sentences, and of the first one to a list.

import { deleteFiles, originOf } from "./cached.js";
import { byId, element, terms } from "./elements.js";
import { firstEmbeddings } from "./embedder.js";
import { bytes, duration } from "./format.js";
import { currentTexts, showSimilarities } from "./sentences.js";
import { site } from "./site.js";
import { showSteps, totals } from "./steps.js";

/** @import { TensorInfo } from "./pkg/weightstream.js" */
/** @import { Origin } from "./cached.js" */
/** @import { Embedder, FirstEmbeddings } from "./embedder.js" */

/**
 * The model on the page. `loading` is set until its first embedding, `embedder` from then on.
 *
 * @typedef {object} Model
 * @property {string | File[]} source
 * @property {AbortController} [loading]
 * @property {Embedder} [embedder]
 * @property {Partial<Record<Origin, FirstEmbeddings>>} firsts The last ones from each origin.
 */

// A tensor that only models with the vocabulary and the width of all-MiniLM-L6-v2 have.
const MARK = { name: "embeddings.word_embeddings.weight", shape: "30522,384" };

export class Similarity {
  /** @type {Model | undefined} */
  #model;
  #isOutdated = false;
  /** Settles when the sentences are computed. @type {Promise<void> | undefined} */
  #computing;
  /** Settles when the last load has ended. ONNX Runtime creates one session at a time. @type {Promise<unknown>} */
  #lastLoad = Promise.resolve();
  #showError;

  /** @param {(error: unknown, sentence?: string) => void} showError */
  constructor(showError) {
    this.#showError = showError;
    byId("compute").addEventListener("click", () => this.load());
    byId("from-cache").addEventListener("click", () => this.load());
    byId("from-network").addEventListener("click", () => this.load({ isCold: true }));
    byId("stop-computing").addEventListener("click", () => this.#model?.loading?.abort());
    byId("sentences").addEventListener("input", () => this.#update());
    byId("sentences").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#model?.embedder) this.#update();
      else this.load();
    });
  }

  /**
   * Shows the section if the model is all-MiniLM-L6-v2.
   *
   * @param {string | File[]} source
   * @param {readonly TensorInfo[]} tensors
   */
  show(source, tensors) {
    this.clear();
    if (!tensors.some(({ name, shape }) => name === MARK.name && shape.join() === MARK.shape)) return;
    this.#model = { source, firsts: {} };
    showBeginning();
    byId("similarity").hidden = false;
    showWhetherItComputes();
  }

  /** Hides the section and frees the model. */
  clear() {
    this.#model?.loading?.abort();
    this.#release(this.#model?.embedder);
    this.#model = undefined;
    byId("similarity").hidden = true;
  }

  /**
   * Loads the weights and computes the first embeddings. Shows the error, if there is one.
   *
   * @param {{ isCold?: boolean }} [options] `isCold`: deletes the cached weights first.
   * @returns {Promise<{ first?: FirstEmbeddings, error?: unknown }>}
   */
  async load({ isCold = false } = {}) {
    const model = this.#model;
    if (!model || model.loading) return {};
    model.loading = new AbortController();
    showLoading(true);
    const load = this.#lastLoad.then(() => this.#load(model, isCold));
    this.#lastLoad = load;
    return load;
  }

  /**
   * @param {Model} model
   * @param {boolean} isCold
   * @returns {Promise<{ first?: FirstEmbeddings, error?: unknown }>}
   */
  async #load(model, isCold) {
    const signal = model.loading?.signal ?? AbortSignal.abort();
    const onStep = (/** @type {string} */ name) => {
      if (model === this.#model) showStatus(`Loading ${name}…`);
    };
    try {
      const { embedder } = model;
      delete model.embedder;
      await this.#release(embedder);
      if (isCold) await deleteFiles(model.source);
      signal.throwIfAborted();
      const texts = currentTexts();
      const first = await firstEmbeddings(model.source, texts, { signal, onStep });
      model.embedder = first.embedder;
      model.firsts[originOf(model.source, first.stats)] = first;
      showSimilarities(texts, first.embeddings);
      showFirst(model, first);
      if (currentTexts().join("\n") !== texts.join("\n")) this.#update();
      return { first };
    } catch (error) {
      if (model === this.#model) {
        showStatus(signal.aborted ? "Stopped." : "");
        if (!signal.aborted) this.#showError(error, "The sentences were not compared.");
      }
      return { error };
    } finally {
      delete model.loading;
      if (model === this.#model) showLoading(false, model);
    }
  }

  /** Computes the embeddings of the sentences on the page. While it computes, only the last change counts. */
  #update() {
    this.#isOutdated = true;
    this.#computing ??= this.#compute().finally(() => (this.#computing = undefined));
  }

  async #compute() {
    try {
      for (let model = this.#model; this.#isOutdated && model?.embedder; model = this.#model) {
        this.#isOutdated = false;
        const texts = currentTexts();
        const startedAt = performance.now();
        const { embeddings } = await model.embedder.embed(texts);
        if (model !== this.#model) continue;
        showSimilarities(texts, embeddings);
        if (!model.loading) showStatus(`Computed again in ${duration((performance.now() - startedAt) / 1000)}.`);
      }
    } catch (error) {
      this.#showError(error, "The sentences were not compared.");
    }
  }

  /**
   * Frees a model, once it does not compute.
   *
   * @param {Embedder} [embedder]
   */
  async #release(embedder) {
    await this.#computing;
    await embedder?.release();
  }
}

/** The section as it is before the first embedding. */
function showBeginning() {
  showSimilarities(currentTexts());
  byId("first-embedding").hidden = true;
  for (const [id, isShown] of Object.entries({ compute: true, "from-cache": false, "from-network": false })) {
    byId(id).hidden = !isShown;
  }
  showStatus("");
}

async function showWhetherItComputes() {
  const computes = await site.then((found) => found.computes, () => false);
  byId("compute", HTMLButtonElement).disabled = !computes;
  if (!computes) showStatus("ONNX Runtime Web is not beside this page. “cargo xtask demo” serves the page with it.");
}

/**
 * @param {Model} model
 * @param {FirstEmbeddings} first
 */
function showFirst(model, first) {
  const { steps, milliseconds, stats } = first;
  const { waited, prepared, computed } = totals(steps);
  const { files, network, cache } = model.firsts;
  byId("first-figures").replaceChildren(...terms([
    ...(typeof model.source === "string"
      ? /** @type {[string, Node][]} */ ([["From the network", time(network)], ["From the cache", time(cache)]])
      : /** @type {[string, Node][]} */ ([["From files", time(files)]])),
    ["Waited for weights", duration(waited / 1000)],
    ["Prepared sessions", duration(prepared / 1000)],
    ["Computed", duration(computed / 1000)],
    ["Received", bytes(stats.bytesReceived)],
  ]));
  showSteps(byId("steps", HTMLTableElement), steps, milliseconds);
  byId("first-embedding").hidden = false;
  const origin = originOf(model.source, stats);
  const from = { network: " from the network", cache: " from the cache", both: "", files: "" }[origin];
  showStatus(`The first embedding was ready after ${duration(milliseconds / 1000)}${from}.`);
}

/**
 * The time to a first embedding. Once ONNX Runtime has started, the next ones do not wait for it.
 *
 * @param {FirstEmbeddings} [first]
 */
function time(first) {
  if (!first) return element("span", {}, "–");
  const note = first.wasStarted ? "ONNX Runtime was running" : "with the start of ONNX Runtime";
  return element("span", {}, duration(first.milliseconds / 1000), element("small", {}, note));
}

/**
 * Shows the button that stops, or those that start.
 *
 * @param {boolean} isLoading
 * @param {Model} [model]
 */
function showLoading(isLoading, model) {
  const hadFocus = byId("compute-actions").contains(document.activeElement);
  const isReady = !isLoading && model?.embedder !== undefined;
  byId("stop-computing").hidden = !isLoading;
  byId("compute").hidden = isLoading || isReady;
  byId("from-cache").hidden = !isReady;
  byId("from-network").hidden = !isReady || typeof model?.source !== "string";
  byId("similarity").toggleAttribute("aria-busy", isLoading);
  const first = byId("compute-actions").querySelector("button:not([hidden])");
  if (hadFocus && first instanceof HTMLElement) first.focus({ preventScroll: true });
}

/** @param {string} sentence */
function showStatus(sentence) {
  byId("similarity-status").textContent = sentence;
}
