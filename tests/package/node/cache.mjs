// Run by Node.js, Deno and Bun: loads a model into the cache folder, which other processes use too. The arguments are
// its URL, a JSON file with the SHA-256 of its tensors, and the part of the model after which the process kills itself.
// Prints what it did as JSON.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import process from "node:process";
import { StreamingLoader } from "weightstream";

const [url, digestsPath, lastPart = "2"] = process.argv.slice(2);
const digests = JSON.parse(readFileSync(digestsPath, "utf8"));

const loader = await StreamingLoader.open(url, {
  onProgress: ({ loaded, total }) => loaded / total >= Number(lastPart) && process.kill(process.pid, "SIGKILL"),
});
const wrong = [];
let byteLength = 0;
for await (const { name, data } of loader.tensors()) {
  const sha256 = createHash("sha256").update(data).digest("hex");
  if (digests[name] !== `sha256:${sha256}`) wrong.push(name);
  byteLength += data.byteLength;
}
const { cacheError, bytesReceived, bytesFromCache } = loader.stats;
loader.close();
const report = { wrong, byteLength, cacheError, bytesReceived, bytesFromCache };
console.log(JSON.stringify(report));
