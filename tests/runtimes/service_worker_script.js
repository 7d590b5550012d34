// The script of a service worker that serves files of a server in the worker. Pages control it by messages.
import { StreamingLoader, clearCache, listCached } from "/pkg/weightstream.js";
import { serve } from "/pkg/weightstream.service-worker.js";
import { content, serverOf } from "/files/server.js";
import { serviceWeights } from "/tests/graph.js";

const VERSION = new URL(location.href).searchParams.get("version");

// What happens to the requests of a file, by the last part of its path.
const SCRIPTS = {
  cut: () => {
    let breaks = 0;
    return (number) => (number > 0 && breaks++ < 4 ? { cutAfter: 200_000 } : {});
  },
  slow: () => (number) => (number > 0 ? { delay: 20 } : {}),
  chunked: () => () => ({ isChunked: true }),
  missing: () => () => ({ status: 404 }),
  denied: () => () => ({ status: 403 }),
  // A file whose validators do not prove which version it is of.
  weak: () => () => changing({ ETag: `W/"${isNew}"` }),
  dated: () => () => changing({ "Last-Modified": "Fri, 13 Nov 2026 00:00:00 GMT" }),
  bare: () => () => changing({}),
  late: () => (number) => (number > 0 ? { status: 403 } : {}),
};

const servers = new Map();
let isNew = false;

// The answers of a file that changes when the page says so.
const changing = (validators) => ({ validators, ...(isNew && { bytes: changed }) });
const changed = content(300_000).map((byte) => byte ^ 0x55);

const errors = [];
let release;
const held = new Promise((resolve) => (release = resolve)); // requests of these files wait for it

// The servers of this worker. A length may be at the end of the path.
function serverAt(url) {
  const name = new URL(url).pathname.split("/").pop();
  if (!servers.has(name)) {
    const bytes = name === "weights" ? serviceWeights().file : content(Number(/\d+$/.exec(name)?.[0] ?? 1_000_000));
    servers.set(name, serverOf(bytes, SCRIPTS[name.replace(/-.*/, "")]?.()));
  }
  return servers.get(name);
}

const upstream = async (url, init) => {
  const { pathname } = new URL(url);
  if (pathname.endsWith("/unreachable")) throw new TypeError("no connection");
  if (pathname.includes("/mapped/") && !url.startsWith("https://cdn.test/")) throw new Error("the URL was not mapped");
  if (pathname.includes("/held")) await held;
  return serverAt(url).fetch(url, init);
};

const retry = { attempts: 1, baseDelay: 1, stallTimeout: 2000 };
const onError = (error, url) => errors.push(`${new URL(url).pathname}: ${error.code ?? error.name}`);

serve({
  match: ({ pathname }) => pathname.startsWith("/tests/cached/"),
  fetch: upstream, retry, onError,
});
serve({
  match: ({ pathname }) => pathname.startsWith("/tests/model/"),
  fetch: upstream, cache: "none", retry, onError,
});
serve({
  match: ({ pathname }) => pathname.startsWith("/tests/mapped/"),
  source: ({ pathname }) => pathname.replace("/tests/mapped/", "https://cdn.test/mapped/"),
  fetch: upstream, cache: "none", retry, onError,
});

const match = () => true;

const COMMANDS = {
  version: () => VERSION,
  // The requests for one file, in the order of arrival.
  requests: (name) => servers.get(name)?.requests ?? [],
  errors: () => errors.splice(0),
  release: () => release(),
  change: () => (isNew = true),
  clearCache: () => clearCache(),
  cached: async () => (await listCached()).map(({ url }) => new URL(url).pathname),
  // Whether calls with wrong arguments throw, and what.
  wrong: () => [{}, { match: 1 }, { match, fetsh: 1 }, { match, source: "/" }].map((options) => {
    try {
      serve(options);
      return "nothing is thrown";
    } catch (error) {
      return `${error.code}: ${error.message}`;
    }
  }),
  // Loads a model in a worker of this worker, which there cannot be.
  inWorker: async (url) => {
    const loader = await StreamingLoader.open(url, { inWorker: true });
    const { length } = await loader.loadIndex();
    const { workersError, cacheError } = loader.stats;
    loader.close();
    return { length, workersError, cacheError };
  },
};

addEventListener("message", async ({ data: [command, ...parameters], ports: [port] }) => {
  try {
    port.postMessage({ value: await COMMANDS[command](...parameters) });
  } catch (error) {
    port.postMessage({ error: String(error.stack ?? error) });
  }
});
addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
