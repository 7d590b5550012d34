// @ts-check
// The demo page: opens a model, shows its tensors and loads them. The parts of the page are in the other modules.

import { StreamingLoader } from "./pkg/weightstream.js";
import { deleteFiles, originOf, originsText, receivedSince } from "./cached.js";
import { checkedSentence } from "./checks.js";
import { bringIntoView, byId } from "./elements.js";
import { bytes, counted, duration } from "./format.js";
import { embedFile } from "./embedding-report.js";
import { loadEverything, reportOf } from "./load.js";
import { clearError, showError, showStatus } from "./messages.js";
import { showMetadata } from "./metadata.js";
import { prepareOpener } from "./opener.js";
import { beginProgress, endProgress, hideProgress, showFigures, showProgress } from "./progress.js";
import { Race } from "./race.js";
import { RangesChart } from "./ranges.js";
import { Similarity } from "./similarity.js";
import { showSite } from "./site.js";
import { listenForSources, remember } from "./sources.js";
import { TensorTable } from "./table.js";
import { TensorView } from "./tensor-view.js";

/** @import { LoadProgress, LoaderStats, Metadata, TensorInfo } from "./pkg/weightstream.js" */
/** @import { Origin } from "./cached.js" */
/** @import { Algorithm } from "./checks.js" */
/** @import { LoadOutcome } from "./load.js" */
/** @import { Source } from "./sources.js" */

/**
 * The model on the page: what it was opened from, its loader, and its loads.
 *
 * @typedef {object} Model
 * @property {string | File[]} source
 * @property {string} label
 * @property {string | undefined} address
 * @property {StreamingLoader} loader
 * @property {number} files
 * @property {AbortController | undefined} [loading] Set while a load runs.
 * @property {LoadOutcome | undefined} [lastLoad] The last load that succeeded.
 * @property {Algorithm | undefined} [verified] The checksums that have verified all of it.
 * @property {Partial<Record<Origin, number>>} seconds How long the last load from each origin took.
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
new Race(showError);
prepareOpener();
showSite();
// On a narrow screen the details would make the page many screens long.
byId("details", HTMLDetailsElement).open = matchMedia("(min-width: 821px)").matches;

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
 * @param {Source} found
 * @param {string} label
 * @param {string} [address]
 * @returns {Promise<unknown>}
 */
async function open(found, label, address) {
  opening?.abort();
  const mine = new AbortController();
  opening = mine;
  /** @type {StreamingLoader | undefined} */
  let loader;
  clearError();
  showStatus(`Opening ${label}…`);
  byId("stop-opening").hidden = false;
  try {
    const source = typeof found === "function" ? await found(mine.signal) : found;
    if (source === undefined) {
      showStatus(`${label} has several models. Choose one of them.`);
      return new Error(`${label} has several models`);
    }
    loader = await StreamingLoader.open(source, {
      signal: mine.signal,
      onProgress: (event) => {
        if (!model || model.loader !== loader) return;
        if (event.done && event.verified) {
          model.verified = event.verified;
          table.markFiles(event.verified);
        }
        showEvent(model, event);
      },
    });
    const [metadata, tensors] = await Promise.all([loader.loadMetadata(), loader.loadIndex()]);
    mine.signal.throwIfAborted();
    closeModel();
    const files = new Set(tensors.map((tensor) => tensor.shard)).size;
    model = { source, label, address, loader, files, seconds: {} };
    showModel(model, metadata, tensors);
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
 * @param {Metadata} metadata
 * @param {readonly TensorInfo[]} tensors
 */
function showModel({ loader, label, files }, metadata, tensors) {
  const stored = tensors.flatMap((tensor) => tensor.components).reduce((sum, part) => sum + part.storedByteLength, 0);
  const decoded = tensors.reduce((sum, tensor) => sum + (tensor.byteLength ?? 0), 0);
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
  showLoading(false);
  const { requests, bytesReceived } = loader.stats;
  bringIntoView(byId("model"), byId("open"));
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
  mine.verified = undefined;
  mine.lastLoad = undefined;
  showLoading(true);
  beginProgress();
  chart.begin();
  const before = mine.loader.stats;
  showStatus("Loading all tensors…");
  const outcome = await loadEverything(mine.loader, {
    signal,
    sha256,
    onTensor: ({ name, verified }) => {
      if (mine === model) table.mark(name, verified);
    },
  });
  mine.loading = undefined;
  if (mine === model) showOutcome(mine, outcome, signal.aborted, before);
  return outcome;
}

/**
 * Loads all tensors again, from the cache or from the network.
 *
 * @param {{ isCold: boolean }} options
 */
async function reload({ isCold }) {
  const before = model;
  if (!before || before.loading) return;
  // A loader that is open keeps what it knows of the cache.
  before.loader.close();
  if (isCold) await deleteFiles(before.source);
  const error = await open(before.source, before.label, before.address);
  if (error || !model || model === before) return;
  model.seconds = before.seconds;
  await loadAll();
}

/**
 * @param {Model} mine
 * @param {LoadOutcome} outcome
 * @param {boolean} stopped
 * @param {LoaderStats} before
 */
function showOutcome(mine, outcome, stopped, before) {
  const { error, seconds, byteLength, tensors } = outcome;
  chart.end(seconds);
  const how = error === undefined ? "done" : stopped ? "stopped" : "failed";
  endProgress(how, outcome);
  mine.lastLoad = how === "done" ? outcome : undefined;
  const { stats } = mine.loader;
  const received = receivedSince(before, stats);
  if (how === "done") mine.seconds[originOf(mine.source, received)] = seconds;
  showLoading(false);
  showFigures(stats, mine.lastLoad, mine.seconds);
  const arrived = `${counted(tensors.length, "tensor")}, ${bytes(byteLength)}`;
  const checked = checkedSentence(tensors, mine.files, mine.verified);
  const origins = originsText(mine.source, received);
  if (how === "done") showStatus(`Loaded ${arrived} in ${duration(seconds)}: ${origins}. ${checked}`);
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
  if (mine === model) showFigures(mine.loader.stats, mine.lastLoad, mine.seconds);
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

/**
 * Shows the button that cancels, or those that load.
 *
 * @param {boolean} loading
 */
function showLoading(loading) {
  const hadFocus = byId("load-actions").contains(document.activeElement);
  const isCached = model?.lastLoad !== undefined && typeof model.source === "string" && !model.loader.stats.cacheError;
  byId("cancel").hidden = !loading;
  byId("load-all").hidden = loading || isCached;
  byId("reload").hidden = loading || !isCached;
  byId("reload-network").hidden = loading || !isCached;
  const first = byId("load-actions").querySelector("button:not([hidden])");
  if (hadFocus && first instanceof HTMLElement) first.focus({ preventScroll: true });
}

function closeModel() {
  model?.loading?.abort();
  model?.loader.close();
  view.clear();
  similarity.clear();
}

byId("load-all").addEventListener("click", () => loadAll());
byId("reload").addEventListener("click", () => reload({ isCold: false }));
byId("reload-network").addEventListener("click", () => reload({ isCold: true }));
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
