// Opens a signed model in Node.js: node node.mjs PACKAGE MODEL SIGNATURE ROOT
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const [entry, model, url, root] = process.argv.slice(2);
const { StreamingLoader } = await import(pathToFileURL(entry));
const signature = { url, certificateChain: await readFile(root), path: "model.safetensors" };
try {
  const loader = await StreamingLoader.open(model, { signature, cache: "none" });
  console.log((await loader.loadTensor("second")).verified);
  loader.close();
} catch ({ code, message }) {
  console.log(code ?? message);
}
