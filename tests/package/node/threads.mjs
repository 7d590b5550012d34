// Run by Node.js, Deno and Bun: loads a model in threads. The arguments are its path, its URL and a JSON file with the
// SHA-256 of its tensors. Prints what it did as JSON, and must then end by itself.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { StreamingLoader } from "weightstream";

const [path, url, digestsPath] = process.argv.slice(2);
const digests = { tensors: JSON.parse(readFileSync(digestsPath, "utf8")) };

let startedThreads = 0;
process.on("worker", () => startedThreads++);

async function load(source, options) {
  const before = startedThreads;
  const loader = await StreamingLoader.open(source, options);
  const wrong = [];
  for await (const { name, data } of loader.tensors()) {
    const sha256 = createHash("sha256").update(data).digest("hex");
    if (digests.tensors[name] !== `sha256:${sha256}`) wrong.push(name);
  }
  const { workersError, cacheError, bytesReceived, bytesFromCache } = loader.stats;
  loader.close();
  return { wrong, threads: startedThreads - before, workersError, cacheError, bytesReceived, bytesFromCache };
}

async function errorOf(source, options) {
  const { code, message } = await StreamingLoader.open(source, options).catch((error) => error);
  return { code, message };
}

symlinkSync("loop.apr", "loop.apr");
const report = {
  workers: await load(path, { workers: 2, digests }),
  inWorker: await load(path, { inWorker: true }),
  file: await load(pathToFileURL(path), { inWorker: true, workers: 2, digests }),
  cold: await load(url, { inWorker: true }),
  warm: await load(url, { inWorker: true }),
  warmHere: await load(url, {}),
  missing: await errorOf("missing.safetensors", {}),
  missingInWorker: await errorOf("missing.safetensors", { inWorker: true }),
  folder: await errorOf(mkdirSync("empty", { recursive: true }), {}),
  unreadable: await errorOf("loop.apr", { inWorker: true }),
};
console.log(JSON.stringify({ ...report, endedAt: Date.now() }));
