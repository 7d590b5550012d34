// A scripted server for the cases of this folder. Each path is one behaviour; its query has the details.

import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { gzipSync } from "node:zlib";

export const content = Uint8Array.from({ length: 200_000 }, (_, at) => (at * 31) >> 3);

/** A SafeTensors file of two tensors. */
const model = () => {
  const header = JSON.stringify({
    a: { dtype: "U8", shape: [4], data_offsets: [0, 4] },
    b: { dtype: "U8", shape: [100_000], data_offsets: [4, 100_004] },
  });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, Buffer.from(header), content.subarray(0, 100_004)]);
};

export const digest = (algorithm, bytes = content) =>
  `${algorithm}-${createHash(algorithm).update(bytes).digest("base64")}`;

export const ETAG = '"version-1"';
export const DATE = "Mon, 05 Jan 2026 10:00:00 GMT";

/**
 * Starts a server on a port of its own. `log` has the requests.
 */
export async function startServer() {
  const log = [];
  const sockets = new Set();
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://localhost");
    log.push({ method: request.method, path: url.pathname, url: request.url, headers: request.headers });
    response.setHeader("Access-Control-Allow-Origin", "*");
    (PATHS[url.pathname] ?? PATHS["/missing"])(request, response, url.searchParams);
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    for (const socket of sockets) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  };
  return { origin: `http://127.0.0.1:${server.address().port}`, log, close };
}

const PATHS = {
  // A file with ranges, as a static server sends it.
  "/file": (request, response, query) => sendFile(request, response, content, query),
  "/model": (request, response, query) => sendFile(request, response, model(), query),
  "/model.safetensors.index.json": (request, response, query) => {
    const weights = { metadata: {}, weight_map: { a: "part.safetensors", b: "part.safetensors" } };
    sendFile(request, response, Buffer.from(JSON.stringify(weights)), query);
  },
  "/empty": (request, response, query) => sendFile(request, response, new Uint8Array(0), query),
  "/json": (request, response, query) => sendFile(request, response, Buffer.from('\ufeff{"a":1}'), query),
  "/text": (request, response, query) => sendFile(request, response, Buffer.from(query.get("text") ?? "text"), query),

  // A server that ignores ranges.
  "/whole": (request, response, query) => {
    response.writeHead(200, { ETag: ETAG, "X-Test": "whole", ...typeIn(query), "Content-Length": content.length });
    response.end(request.method === "HEAD" ? undefined : content);
  },
  "/chunked": (request, response) => {
    response.writeHead(200, { "Content-Type": "text/plain" });
    response.write("one,");
    response.end("two");
  },
  "/gzip": (request, response) => {
    const body = gzipSync("compressed ".repeat(1000));
    const headers = { "Content-Encoding": "gzip", "Content-Type": "text/plain", "Content-Length": body.length };
    response.writeHead(200, headers);
    response.end(body);
  },

  // The first bytes arrive, and nothing after them.
  "/endless": (request, response, query) => {
    response.writeHead(Number(query.get("status") ?? 200), { "Content-Type": "text/plain", "X-Test": "endless" });
    response.write("first");
  },
  "/endless-range": (request, response) => {
    const headers = { "Content-Length": "1000000", "X-Test": "endless" };
    const isRange = request.headers.range !== undefined;
    if (isRange) headers["Content-Range"] = "bytes 0-999999/1000000";
    response.writeHead(isRange ? 206 : 200, headers);
    response.write("first");
  },
  // A model of which everything but the end arrives.
  "/endless-model": (request, response) => {
    const bytes = model();
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range);
    const end = Math.min(Number(last || bytes.length - 1) + 1, bytes.length);
    const range = `bytes ${first}-${end - 1}/${bytes.length}`;
    response.writeHead(206, { "Content-Range": range, "Content-Length": end - Number(first), ETag: ETAG });
    response.write(bytes.subarray(Number(first), Math.min(end, 80_000)));
    if (end <= 80_000) response.end();
  },
  // A connection that breaks after a few bytes, each time at the same one.
  "/cut": (request, response) => {
    response.writeHead(200, { "Content-Length": 1000 });
    response.write("first", () => request.socket.destroy());
  },
  // Neither the head nor anything else arrives.
  "/silent": () => {},
  "/broken": (request) => request.socket.destroy(),

  "/status": (request, response, query) => {
    const status = Number(query.get("code"));
    response.writeHead(status, query.get("text") ?? undefined, { "X-Test": `status ${status}`, ...typeIn(query) });
    response.end([204, 304].includes(status) ? undefined : query.get("body") ?? `body of ${status}`);
  },
  "/missing": (request, response) => {
    response.writeHead(404, { "Content-Type": "text/plain", "X-Test": "missing" });
    response.end("no such file");
  },
  "/no-ranges": (request, response) => {
    const isRefused = request.headers.range !== undefined;
    response.writeHead(isRefused ? 416 : 200, { "X-Test": isRefused ? "refused" : "whole" });
    response.end(isRefused ? "no ranges" : "all of it");
  },
  "/wrong-range": (request, response) => {
    if (request.headers.range === undefined) return response.end("all of it");
    response.writeHead(206, { "Content-Range": "bytes 5-8/9", "Content-Length": 4 });
    response.end("f it");
  },
  "/conditional": (request, response, query) => {
    const isKnown = request.headers["if-none-match"] === ETAG || request.headers["if-modified-since"] === DATE;
    const isOther = request.headers["if-match"] !== undefined && request.headers["if-match"] !== ETAG;
    if (isOther) return response.writeHead(412, { "X-Test": "other" }).end("other version");
    if (isKnown) return response.writeHead(304, { ETag: ETAG }).end();
    sendFile(request, response, content, query);
  },

  "/redirect": (request, response, query) => {
    response.writeHead(Number(query.get("code") ?? 302), { Location: query.get("to"), "X-Test": "redirect" });
    response.end("moved");
  },
  // What the client has sent, without what differs between any two clients.
  "/echo": (request, response) => {
    const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !VARYING.includes(name)));
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      const body = JSON.stringify({ method: request.method, headers, body: Buffer.concat(chunks).toString() });
      response.writeHead(200, { "Content-Type": "application/json", "X-Method": request.method });
      response.end(request.method === "HEAD" ? undefined : body);
    });
  },
};

/** Headers with which weightstream asks for ranges, past the browser's own cache. */
const VARYING = ["range", "connection", "host", "accept-encoding", "user-agent", "pragma", "cache-control"];

const typeIn = (query) => (query.has("type") ? { "Content-Type": query.get("type") } : {});

function sendFile(request, response, bytes, query) {
  const headers = {
    ...typeIn(query), ETag: ETAG, "Last-Modified": DATE, "Accept-Ranges": "bytes", "X-Test": "file",
    "x-repo-commit": "0123abcd", "Cache-Control": "max-age=60",
  };
  const condition = request.headers["if-range"];
  const isCurrent = condition === undefined || condition === ETAG || condition === DATE;
  const [, first, last, suffix] = (isCurrent && /^bytes=(?:(\d+)-(\d*)|-(\d+))$/.exec(request.headers.range)) || [];
  const start = suffix === undefined ? Number(first) : Math.max(0, bytes.length - Number(suffix));
  const end = last && BigInt(last) < bytes.length ? Number(last) + 1 : bytes.length;
  if (Number.isNaN(start) || (last && BigInt(last) < BigInt(first))) {
    response.writeHead(200, { ...headers, "Content-Length": bytes.length });
    return response.end(request.method === "HEAD" ? undefined : bytes);
  }
  if (start >= bytes.length) {
    response.writeHead(416, { ...headers, "Content-Range": `bytes */${bytes.length}` });
    return response.end("there are no such bytes");
  }
  response.writeHead(206, {
    ...headers, "Content-Range": `bytes ${start}-${end - 1}/${bytes.length}`, "Content-Length": end - start,
  });
  response.end(bytes.subarray(start, end));
}
