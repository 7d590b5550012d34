// The first use of the package in a page that has loaded its scripts, like those of the page itself.
import { StreamingLoader } from "/app/weightstream.js";

// Until a model is open, whose header has been read. Loads, compiles and starts the module.
export async function open({ url, cache }) {
  const start = performance.now();
  const loader = await StreamingLoader.open(url, { cache });
  const ms = performance.now() - start;
  loader.close();
  return ms;
}

// Bytes in one response, with which nothing is done.
export async function plain({ url }) {
  const start = performance.now();
  await (await fetch(url)).arrayBuffer();
  return performance.now() - start;
}
