// @ts-check
// The demo page: opens a model, shows its tensors and loads them. The parts of the page are in the other modules.

import { LoadError, StreamingLoader } from "./pkg/weightstream.js";
import { byId, element } from "./elements.js";
import { bytes, counted, duration } from "./format.js";
import { embedFile } from "./embedding-report.js";
import { loadEverything, reportOf } from "./load.js";
import { showMetadata } from "./metadata.js";
import { beginProgress, endProgress, hideProgress, showFigures, showProgress } from "./progress.js";
import { RangesChart } from "./ranges.js";
import { Similarity } from "./similarity.js";
import { listenForSources } from "./sources.js";
import { TensorTable } from "./table.js";
import { TensorView } from "./tensor-view.js";

/** @import { LoadProgress, Metadata, TensorInfo } from "./pkg/weightstream.js" */
/** @import { LoadOutcome } from "./load.js" */

/**
 * The model on the page: its loader, the controller of a load that runs, and the outcome of the last successful load.
 *
 * @typedef {object} Model
 * @property {StreamingLoader} loader
 * @property {AbortController | undefined} [loading]
 * @property {LoadOutcome | undefined} [lastLoad]
 */

const chart = new RangesChart(byId("ranges"));
const view = new TensorView(byId("tensor-view"));
const table = new TensorTable({
  table: byId("tensor-table", HTMLTableElement),
  search: byId("search", HTMLInputElement),
  count: byId("tensor-count"),
  choose: openTensor,
});

const similarity = new Similarity(showError);

/** @type {Model | undefined} */
let model;
/**
 * Aborts the opening of a model. Until it is open, the previous model stays on the page.
 *
 * @type {AbortController | undefined}
 */
let opening;

/**
 * Opens a model. Resolves to the error, if there is one, after showing it.
 *
 * @param {string | File[]} source
 * @param {string} label
 * @param {string} [address]
 * @returns {Promise<unknown>}
 */
async function open(source, label, address) {
  opening?.abort();
  const mine = new AbortController();
  opening = mine;
  /** @type {StreamingLoader | undefined} */
  let loader;
  clearError();
  showStatus(`Opening ${label}…`);
  byId("stop-opening").hidden = false;
  try {
    loader = await StreamingLoader.open(source, {
      signal: mine.signal,
      onProgress: (event) => {
        if (!model || model.loader !== loader) return;
        if (event.done && event.verified) table.markFiles(event.verified);
        showEvent(model, event);
      },
    });
    const [metadata, tensors] = await Promise.all([loader.loadMetadata(), loader.loadIndex()]);
    mine.signal.throwIfAborted();
    closeModel();
    model = { loader };
    showModel(model, label, metadata, tensors);
    similarity.show(source, tensors);
    remember(address);
  } catch (error) {
    loader?.close();
    const superseded = mine !== opening;
    if (superseded) return error;
    if (mine.signal.aborted) showStatus("Stopped.");
    else showError(error, `${label} was not opened.`);
    return error;
  } finally {
    if (mine === opening) {
      opening = undefined;
      byId("stop-opening").hidden = true;
    }
  }
  return undefined;
}

/**
 * @param {Model} opened
 * @param {string} label
 * @param {Metadata} metadata
 * @param {readonly TensorInfo[]} tensors
 */
function showModel({ loader }, label, metadata, tensors) {
  const stored = tensors.flatMap((tensor) => tensor.components).reduce((sum, part) => sum + part.storedByteLength, 0);
  const decoded = tensors.reduce((sum, tensor) => sum + (tensor.byteLength ?? 0), 0);
  const files = new Set(tensors.map((tensor) => tensor.shard)).size;
  const name = metadata.metadata.name;
  byId("model-name").textContent = typeof name === "string" && name ? name : label;
  byId("model-facts").textContent = [
    counted(tensors.length, "tensor"),
    stored === decoded ? bytes(decoded) : `${bytes(decoded)}, stored in ${bytes(stored)}`,
    counted(files, "file"),
  ].join(" · ");
  byId("model").hidden = false;
  document.documentElement.dataset.state = "open";
  document.title = `${byId("model-name").textContent} · weightstream`;
  showMetadata(byId("metadata"), metadata);
  view.clear();
  table.show(tensors);
  chart.show(tensors);
  hideProgress();
  showFigures(loader.stats);
  const { requests, bytesReceived } = loader.stats;
  showStatus(`Opened with ${counted(requests, "request")} and ${bytes(bytesReceived)}. No tensor is loaded yet.`);
}

/**
 * Loads all tensors. Resolves to nothing if there is no model, or if it is being loaded already.
 *
 * @param {{ sha256?: boolean }} [options]
 * @returns {Promise<LoadOutcome | undefined>}
 */
async function loadAll({ sha256 = false } = {}) {
  const mine = model;
  if (!mine || mine.loading) return undefined;
  const { signal } = (mine.loading = new AbortController());
  clearError();
  showLoading(true);
  beginProgress();
  chart.begin();
  showStatus("Loading all tensors…");
  const outcome = await loadEverything(mine.loader, {
    signal,
    sha256,
    onTensor: ({ name, verified }) => {
      if (mine === model) table.mark(name, verified);
    },
  });
  mine.loading = undefined;
  if (mine === model) showOutcome(mine, outcome, signal.aborted);
  return outcome;
}

/**
 * @param {Model} mine
 * @param {LoadOutcome} outcome
 * @param {boolean} stopped
 */
function showOutcome(mine, outcome, stopped) {
  const { error, seconds, byteLength, tensors } = outcome;
  showLoading(false);
  chart.end(seconds);
  const how = error === undefined ? "done" : stopped ? "stopped" : "failed";
  endProgress(how, outcome);
  mine.lastLoad = how === "done" ? outcome : undefined;
  showFigures(mine.loader.stats, mine.lastLoad);
  const arrived = `${counted(tensors.length, "tensor")}, ${bytes(byteLength)}`;
  const verified = "All checksums that the format has are correct.";
  if (how === "done") showStatus(`Loaded ${arrived} in ${duration(seconds)}. ${verified}`);
  else if (how === "stopped") showStatus(`Stopped after ${arrived}.`);
  else showError(error, `The load ended after ${arrived}.`);
}

/** @param {TensorInfo} info */
async function openTensor(info) {
  const mine = model;
  if (!mine) return;
  clearError();
  try {
    const loaded = view.open(mine.loader, info);
    bringIntoView(byId("tensor-view"));
    const tensor = await loaded;
    if (tensor && mine === model) table.mark(tensor.name, tensor.verified);
  } catch (error) {
    if (mine === model) showError(error);
  }
  if (mine === model) showFigures(mine.loader.stats, mine.lastLoad);
}

/**
 * Scrolls to the tensor, which is below the table on a narrow screen.
 *
 * @param {HTMLElement} panel
 */
function bringIntoView(panel) {
  if (panel.getBoundingClientRect().top > innerHeight * 0.6) panel.scrollIntoView({ block: "start" });
}

/**
 * @param {Model} mine
 * @param {LoadProgress} event
 */
function showEvent({ loader, loading }, event) {
  chart.add(event);
  if (event.type === "tensors" && loading) {
    showProgress(event);
    showFigures(loader.stats);
  }
}

/** @param {boolean} loading */
function showLoading(loading) {
  const [shown, gone] = loading ? [byId("cancel"), byId("load-all")] : [byId("load-all"), byId("cancel")];
  const hadFocus = document.activeElement === gone;
  shown.hidden = false;
  gone.hidden = true;
  if (hadFocus) shown.focus({ preventScroll: true });
}

function closeModel() {
  model?.loading?.abort();
  model?.loader.close();
  showLoading(false);
  view.clear();
  similarity.clear();
}

/**
 * Puts the model into the address bar, so that a reload opens it again. Local files have no address.
 *
 * @param {string} [address]
 */
function remember(address) {
  const url = new URL(location.href);
  if (address === url.searchParams.get("model")) return;
  url.search = "";
  if (address) url.searchParams.set("model", address);
  history.replaceState(null, "", url);
}

/** @param {string} sentence */
function showStatus(sentence) {
  byId("status").textContent = sentence;
}

/**
 * @param {unknown} error
 * @param {string} [sentence]
 */
function showError(error, sentence = "") {
  showStatus(sentence);
  const isError = error instanceof Error;
  const message = element("p", {}, isError ? error.message : String(error));
  const code = element("small", {}, error instanceof LoadError ? error.code : isError ? error.name : "");
  const dismiss = element("button", { type: "button", class: "quiet", "aria-label": "Dismiss" }, "×");
  dismiss.addEventListener("click", clearError);
  byId("error").replaceChildren(element("div", {}, message, code), dismiss);
}

function clearError() {
  byId("error").replaceChildren();
}

byId("load-all").addEventListener("click", () => loadAll());
byId("cancel").addEventListener("click", () => model?.loading?.abort());
byId("stop-opening").addEventListener("click", () => opening?.abort());

const { openAddress } = listenForSources(open, showError);

// `?model=ADDRESS` opens a model, `&load=all` loads it, `&sha256=1` hashes its tensors. `&embed=ADDRESS` embeds the
// sentences of a file. A headless runner reads the reports.
const query = new URLSearchParams(location.search);
const address = query.get("model");
if (address !== null) {
  const error = await openAddress(address);
  if (query.get("load") === "all") {
    const outcome = error ? { error } : await loadAll({ sha256: query.get("sha256") === "1" });
    Object.assign(window, { weightstreamReport: reportOf(model?.loader, outcome ?? {}) });
  }
  const sentences = query.get("embed");
  if (sentences !== null) {
    const report = error ? { ok: false, error: String(error) } : await embedFile(similarity, sentences);
    Object.assign(window, { weightstreamEmbeddings: report });
  }
}
