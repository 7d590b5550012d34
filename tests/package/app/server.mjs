// Run by Node.js, Deno and Bun: loads a tensor by path, by file URL and over HTTP, from a cold and a warm cache. The
// arguments are a path, a URL and the name of the tensor. Prints what it did as JSON.

import { createHash } from "node:crypto";
import { dirname } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { StreamingLoader, cachedBytes, clearCache, listCached, openFile } from "weightstream";

const [path, url, name] = process.argv.slice(2);

async function load(source, options) {
  const loader = await StreamingLoader.open(source, options);
  const sha256 = await digest((await loader.loadTensor(name)).data);
  const info = (await loader.loadIndex()).find((tensor) => tensor.name === name);
  const isSame = (await digest((await loader.loadTensor(info)).data)) === sha256;
  const misspelled = await loader.loadTensor(name.toLowerCase()).catch((error) => error.message);
  let byteLength = 0;
  for await (const { data } of loader.tensors()) byteLength += data.byteLength;
  const { bytesReceived, bytesFromCache, cacheError } = loader.stats;
  loader.close();
  return { sha256, isSame, misspelled, byteLength, bytesReceived, bytesFromCache, cacheError };
}

const digest = (data) => createHash("sha256").update(data).digest("hex");

const report = {
  path: await load(path),
  file: await load(pathToFileURL(path)),
  folder: await load(dirname(path)),
  workers: await load(path, { workers: 2 }),
  inWorker: (await load(path, { inWorker: true })).sha256,
  cold: await load(url),
  warm: await load(url),
  listed: (await listCached()).map((file) => file.url),
  cachedBytes: await cachedBytes(),
  text: (await (await openFile(process.argv[1])).text()).startsWith("// Run by"),
  missing: await load("missing.safetensors").catch(({ code, message }) => ({ code, message })),
};
await clearCache();
report.bytesAfterClear = await cachedBytes();
console.log(JSON.stringify(report));
