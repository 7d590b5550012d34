// Run by Node.js, Deno and Bun with settings of the cache that are invalid: loads that use no cache do not notice. The
// arguments are the URL and the path of a file. Prints the lengths of what was loaded as JSON.

import process from "node:process";
import { openFile } from "weightstream";

const [url, path] = process.argv.slice(2);
const lengths = [];
for (const [source, options] of [[url, { cache: "none" }], [path, {}]]) {
  const file = await openFile(source, options);
  lengths.push((await file.bytes()).length);
  file.close();
}
console.log(JSON.stringify(lengths));
