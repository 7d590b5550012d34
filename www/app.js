// The page: a model is chosen, opened, looked at, loaded. Each part lives in a module of its own; here they meet.

import { LoadError, StreamingLoader } from "./pkg/weightstream.js";
import { byId, element } from "./elements.js";
import { bytes, counted, duration } from "./format.js";
import { loadEverything, reportOf } from "./load.js";
import { showMetadata } from "./metadata.js";
import { beginProgress, endProgress, hideProgress, showFigures, showProgress } from "./progress.js";
import { RangesPicture } from "./ranges.js";
import { listenForSources } from "./sources.js";
import { TensorTable } from "./table.js";
import { TensorView } from "./tensor-view.js";

const picture = new RangesPicture(byId("ranges"));
const view = new TensorView(byId("tensor-view"));
const table = new TensorTable({
  table: byId("tensor-table"), search: byId("search"), count: byId("tensor-count"), choose: openTensor,
});

/** The model on the page: its loader, the AbortController of a load that runs, the outcome of the last whole one. */
let model;
/** The AbortController of an opening that runs. Until it succeeds, the model before stays on the page. */
let opening;

/** Resolves to the error, if there was one: it is on the page already. */
async function open(source, label, address) {
  opening?.abort();
  const mine = new AbortController();
  opening = mine;
  let loader;
  clearError();
  say(`Opening ${label}…`);
  byId("stop-opening").hidden = false;
  try {
    loader = await StreamingLoader.open(source, {
      signal: mine.signal,
      onProgress: (event) => {
        if (model?.loader !== loader) return;
        if (event.done && event.verified) table.markFiles(event.verified);
        showEvent(event);
      },
    });
    const [metadata, tensors] = await Promise.all([loader.loadMetadata(), loader.loadIndex()]);
    mine.signal.throwIfAborted();
    closeModel();
    model = { loader };
    showModel(label, metadata, tensors);
    remember(address);
  } catch (error) {
    loader?.close();
    const superseded = mine !== opening;
    if (superseded) return error;
    if (mine.signal.aborted) say("Stopped.");
    else complain(error, `${label} was not opened.`);
    return error;
  } finally {
    if (mine === opening) {
      opening = undefined;
      byId("stop-opening").hidden = true;
    }
  }
  return undefined;
}

function showModel(label, metadata, tensors) {
  const { loader } = model;
  const stored = tensors.flatMap((tensor) => tensor.components).reduce((sum, part) => sum + part.storedByteLength, 0);
  const decoded = tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
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
  picture.show(tensors);
  hideProgress();
  showFigures(loader.stats);
  const { requests, bytesReceived } = loader.stats;
  say(`Opened with ${counted(requests, "request")}: ${bytes(bytesReceived)} read, no tensor yet.`);
}

async function loadAll({ sha256 = false } = {}) {
  const mine = model;
  if (!mine?.loader || mine.loading) return undefined;
  mine.loading = new AbortController();
  clearError();
  showLoading(true);
  beginProgress();
  picture.begin();
  say("Loading all tensors…");
  const outcome = await loadEverything(mine.loader, {
    signal: mine.loading.signal,
    sha256,
    onTensor: ({ name, verified }) => mine === model && table.mark(name, verified),
  });
  const stopped = mine.loading.signal.aborted;
  mine.loading = undefined;
  // Another model is on the page by now.
  if (mine !== model) return outcome;
  showOutcome(mine, outcome, stopped);
  return outcome;
}

function showOutcome(mine, outcome, stopped) {
  const { error, seconds, byteLength, tensors } = outcome;
  showLoading(false);
  picture.end(seconds);
  const how = error === undefined ? "done" : stopped ? "stopped" : "failed";
  endProgress(how, outcome);
  mine.lastLoad = how === "done" ? outcome : undefined;
  showFigures(mine.loader.stats, mine.lastLoad);
  const arrived = `${counted(tensors.length, "tensor")}, ${bytes(byteLength)}`;
  if (how === "done") say(`All here: ${arrived} in ${duration(seconds)}. The checksums of the files, where they have any, are right.`);
  else if (how === "stopped") say(`Stopped after ${arrived}.`);
  else complain(error, `The load ended after ${arrived}.`);
}

async function openTensor(info) {
  const mine = model;
  clearError();
  try {
    const loaded = view.open(mine.loader, info);
    bringIntoView(byId("tensor-view"));
    const tensor = await loaded;
    if (tensor && mine === model) table.mark(tensor.name, tensor.verified);
  } catch (error) {
    if (mine === model) complain(error);
  }
  if (mine === model) showFigures(mine.loader.stats, mine.lastLoad);
}

/** On a narrow screen the tensor lies below the table. */
function bringIntoView(panel) {
  if (panel.getBoundingClientRect().top > innerHeight * 0.6) panel.scrollIntoView({ block: "start" });
}

function showEvent(event) {
  picture.add(event);
  if (event.type === "tensors" && model.loading) {
    showProgress(event);
    showFigures(model.loader.stats);
  }
}

function showLoading(loading) {
  const [shown, gone] = loading ? [byId("cancel"), byId("load-all")] : [byId("load-all"), byId("cancel")];
  const hadFocus = document.activeElement === gone;
  shown.hidden = false;
  gone.hidden = true;
  if (hadFocus) shown.focus({ preventScroll: true });
}

function closeModel() {
  model?.loading?.abort();
  model?.loader?.close();
  showLoading(false);
  view.clear();
}

/** The address bar leads back to this model; local files have no address. */
function remember(address) {
  const url = new URL(location.href);
  const before = url.searchParams.get("model");
  if (address === before) return;
  url.search = "";
  if (address) url.searchParams.set("model", address);
  history.replaceState(null, "", url);
}

function say(sentence) {
  byId("status").textContent = sentence;
}

function complain(error, sentence = "") {
  say(sentence);
  const message = element("p", {}, error.message ?? String(error));
  const code = element("small", {}, error instanceof LoadError ? error.code : error.name ?? "");
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

const { openAddress } = listenForSources(open, (message) => complain({ message }));

// `?model=ADDRESS` opens it at once; `&load=all` loads it, `&sha256=1` hashes it. A headless runner reads the report.
const asked = new URLSearchParams(location.search);
if (asked.has("model")) {
  const error = await openAddress(asked.get("model"));
  if (asked.get("load") === "all") {
    const outcome = error ? { error } : await loadAll({ sha256: asked.get("sha256") === "1" });
    window.weightstreamReport = reportOf(model?.loader, outcome);
  }
}
