// @ts-check
// `init`: starts the module, and fetches what a page may need later, so that it can be offline then.
import { laterSources } from "./location.js";
import { init as start } from "./module.js";

/** @import * as Api from "../weightstream.js" */

/** How long `init` waits for what is not needed yet. */
const MAX_WAIT_MS = 10_000;

/** @type {Promise<void> | undefined} */
let fetched;

/** @type {typeof Api.init} */
export async function init(given) {
  await start(given);
  await (fetched ??= fetchLater());
}

/** Without these files, `open` reports what it cannot do, so a failure here is not reported. */
async function fetchLater() {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), MAX_WAIT_MS);
  const fetching = sources().map(async (url) => {
    await (await fetch(url, { credentials: "same-origin", signal: stop.signal })).arrayBuffer();
  });
  const stopped = new Promise((resolve) => stop.signal.addEventListener("abort", resolve));
  const scripts = [import("../worker/remote.js"), import("../loader/pieces.js"), import("../cache/cross_origin.js")];
  await Promise.race([Promise.allSettled([...fetching, ...scripts]), stopped]);
  clearTimeout(timer);
}

/** Code without a URL of its own, as in Cloudflare Workers, has no files beside it. */
function sources() {
  try {
    return laterSources();
  } catch {
    return [];
  }
}
