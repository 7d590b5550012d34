// Run by Node.js, Deno and Bun: loads files into the cache folder. The arguments are their URLs. Prints what was loaded
// and what is cached as JSON.

import { createHash } from "node:crypto";
import process from "node:process";
import { listCached, openFile } from "weightstream";

const sha256 = [];
const files = [];
for (const url of process.argv.slice(2)) {
  const file = await openFile(url);
  sha256.push(createHash("sha256").update(await file.bytes()).digest("hex"));
  files.push(file);
}
const cached = (await listCached()).map((file) => file.url.split("/").at(-1)).sort(); // after all earlier writes
const cacheErrors = files.map((file) => file.stats.cacheError ?? null);
for (const file of files) file.close();
console.log(JSON.stringify({ sha256, cacheErrors, cached }));
