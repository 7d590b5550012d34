import { LoadError, StreamingLoader, type LoadProgress, type TensorInfo } from "weightstream";

const status = find("#status", HTMLElement);
const progress = find("progress", HTMLProgressElement);
const rows = find("tbody", HTMLTableSectionElement);

// A submitted form reloads the page with `?model=URL`.
const model = new URLSearchParams(location.search).get("model");
if (model !== null) {
  find("input", HTMLInputElement).value = model;
  try {
    await open(model);
  } catch (error) {
    status.textContent = error instanceof LoadError ? `${error.code}: ${error.message}` : String(error);
  }
}

/** Lists the tensors of a model. Only its headers are read; a click on "Load" loads a tensor. */
async function open(url: string): Promise<void> {
  status.textContent = "Opening…";
  // The loader stays open for as long as the page: otherwise call `loader.close()`.
  const loader = await StreamingLoader.open(url, { onProgress: showProgress });
  const tensors = await loader.loadIndex();
  for (const tensor of tensors) addRow(loader, tensor);
  status.textContent = `${tensors.length} tensors, ${loader.stats.bytesReceived} bytes read`;
}

function addRow(loader: StreamingLoader, { name, dtype, shape, byteLength }: TensorInfo): void {
  const row = rows.insertRow();
  for (const text of [name, dtype, shape.join(" × "), String(byteLength ?? "?")]) row.insertCell().textContent = text;
  const button = document.createElement("button");
  button.textContent = "Load";
  button.addEventListener("click", async () => {
    try {
      const { data, verified } = await loader.loadTensor(name);
      button.replaceWith(`${data?.length ?? 0} values, verified by ${verified ?? "no checksum"}`);
    } catch (error) {
      status.textContent = String(error);
    }
  });
  row.insertCell().append(button);
}

function showProgress({ loaded, total }: LoadProgress): void {
  progress.max = total;
  progress.value = loaded;
}

function find<T extends Element>(selector: string, type: new () => T): T {
  const element = document.querySelector(selector);
  if (element instanceof type) return element;
  throw new Error(`The page has no ${selector}.`);
}
