// What `fetch` promises, after the topics of the web-platform-tests fetch/api and fetch/range. Each case is run with
// the platform's own `fetch` and with `createFetch`, and must give the same result. `fetch` may be any of the two.

import { DATE, ETAG, content, digest } from "./server.js";

/** What can be seen of a response without its body. */
const headOf = ({ status, statusText, ok, type, url, redirected, headers }) => ({
  status, statusText, ok, type, url, redirected, headers: shownHeaders(headers),
});

const shownHeaders = (headers) =>
  Object.fromEntries([...headers].filter(([name]) => !["date", "connection", "keep-alive"].includes(name)));

const sum = (bytes) => new Uint8Array(bytes).reduce((total, byte, at) => (total + byte * (at % 251)) % 1_000_003, 0);

/** The name of the error that a promise rejects with. A `LoadError` takes the place of the `TypeError` of a failure. */
export async function rejection(promise) {
  try {
    await promise;
    return "no error";
  } catch (error) {
    return error?.name === "LoadError" ? "TypeError" : String(error?.name ?? error);
  }
}

/** The head and the bytes of a response, or the name of the error. */
async function outcome(promise) {
  let response;
  try {
    response = await promise;
  } catch (error) {
    return rejection(Promise.reject(error));
  }
  const bytes = await response.arrayBuffer();
  return { ...headOf(response), length: bytes.byteLength, sum: sum(bytes), bodyUsed: response.bodyUsed };
}

/** A case that makes one request, and compares all of its response. */
const get = (path, init) => ({ fetch, at }) => outcome(fetch(at(path), init));

const withMethod = (method, body) => async ({ fetch, at }) => {
  const response = await fetch(at("/echo"), { method, ...(body && { body }) });
  return [headOf(response).headers["x-method"], await response.text()];
};

const ranges = {
  "a range": "bytes=100-199",
  "the first byte": "bytes=0-0",
  "the last byte": "bytes=199999-199999",
  "a range to the end": "bytes=150000-",
  "a range from the start to the end": "bytes=0-",
  "the last bytes": "bytes=-10",
  "more last bytes than there are": "bytes=-1000000",
  "a range that ends behind the file": "bytes=199990-300000",
  "a range behind the file": "bytes=200000-",
  "a range far behind the file": "bytes=900000-900001",
  "no last bytes": "bytes=-0",
  "several ranges": "bytes=0-1,5-6",
  "a range that ends before it starts": "bytes=5-2",
  "no numbers": "bytes=-",
  "letters": "bytes=a-b",
  "another unit": "items=0-5",
  "spaces": "bytes = 0-5",
  "a number that is too large": "bytes=0-99999999999999999999",
};

const conditions = {
  "If-None-Match of the version": { "If-None-Match": ETAG },
  "If-None-Match of another version": { "If-None-Match": '"other"' },
  "If-Modified-Since the date": { "If-Modified-Since": DATE },
  "If-Match of another version": { "If-Match": '"other"' },
  "If-Match of the version": { "If-Match": ETAG },
};

const ifRanges = {
  "the ETag": ETAG,
  "another ETag": '"version-0"',
  "a weak ETag": `W/${ETAG}`,
  "the date": DATE,
  "another date": "Sun, 04 Jan 2026 10:00:00 GMT",
};

const integrities = {
  "sha256": digest("sha256"),
  "sha384": digest("sha384"),
  "sha512": digest("sha512"),
  "a wrong sha256": digest("sha256", content.subarray(1)),
  "a wrong sha512": digest("sha512", content.subarray(1)),
  "two, one of them right": `${digest("sha256", content.subarray(1))} ${digest("sha256")}`,
  "a stronger one that is wrong": `${digest("sha256")} ${digest("sha512", content.subarray(1))}`,
  "an unknown algorithm": "md5-0000",
};

const headers = {
  "an object": { "X-One": "1" },
  "Headers": new Headers({ "X-One": "1", "X-Two": "2" }),
  "pairs": [["X-One", "1"], ["X-One", "2"]],
  "values with spaces": { "X-One": "  1  " },
  "an empty value": { "X-One": "" },
  "Accept": { Accept: "application/custom" },
  "Accept-Language": { "Accept-Language": "eo" },
};

const badInits = {
  "an unknown mode": { mode: "unknown" },
  "an unknown credentials mode": { credentials: "unknown" },
  "an unknown cache mode": { cache: "unknown" },
  "an unknown redirect mode": { redirect: "unknown" },
  "mode navigate": { mode: "navigate" },
  "only-if-cached without same-origin": { cache: "only-if-cached" },
  "a forbidden method": { method: "TRACE" },
  "an invalid method": { method: "G ET" },
  "a body of GET": { body: "text" },
  "an invalid header": { headers: { "a b": "1" } },
  "an invalid value": { headers: { a: "1\n2" } },
  "a signal of another class": { signal: {} },
  "an invalid referrer": { referrer: "http://:80" },
  "an unknown referrer policy": { referrerPolicy: "unknown" },
  "a window": { window: 1 },
  "no object": "text",
};

const named = (prefix, table, make) => {
  const entries = Array.isArray(table) ? table.map((value) => [value, value]) : Object.entries(table);
  return Object.fromEntries(entries.map(([name, value]) => [`${prefix}: ${name}`, make(value)]));
};

/** No server is asked again after one of these. */
const STATUSES = [
  200, 201, 202, 203, 204, 205, 206, 299, 300, 304, 400, 401, 403, 404, 405, 410, 416, 418, 451, 501,
];

/** A body that never ends: what arrives of it, and the end of the call by an abort. */
const endless = (path) => async ({ fetch, at }) => {
  const controller = new AbortController();
  const response = await fetch(at(path), { signal: controller.signal });
  const reader = response.body.getReader();
  const { value } = await reader.read();
  controller.abort();
  return [headOf(response), new TextDecoder().decode(value), await rejection(reader.read())];
};

const aborted = (path, use) => async ({ fetch, at }) => {
  const controller = new AbortController();
  const response = await fetch(at(path), { signal: controller.signal });
  controller.abort();
  return use(response);
};

export const cases = {
  // basic
  "a file": get("/file"),
  "a file of a type": get("/file?type=Application/X-Test;charset=UTF-8"),
  "a file that ignores ranges": get("/whole"),
  "a file of unknown length": get("/chunked"),
  "an empty file": get("/empty"),
  "a compressed file": get("/gzip"),
  "a fragment": get("/file#part"),
  "a query": get("/file?a=b&c=%20"),
  "a URL object": ({ fetch, at }) => outcome(fetch(new URL(at("/file")))),
  "a Request": ({ fetch, at }) => outcome(fetch(new Request(at("/file")))),
  "a Request as options": ({ fetch, at }) =>
    outcome(fetch(at("/echo"), new Request(at("/x"), { headers: { a: "1" } }))),
  "a Request of another one": ({ fetch, at }) => outcome(fetch(new Request(new Request(at("/file"))))),
  "an object with a URL": ({ fetch, at }) => outcome(fetch({ toString: () => at("/file") })),
  "null as options": get("/file", null),
  "an invalid URL": ({ fetch }) => outcome(fetch("http://:80")),
  "a URL with credentials": ({ fetch, at }) => outcome(fetch(at("/file").replace("//", "//user:pass@"))),
  "a data URL": ({ fetch }) => outcome(fetch("data:text/plain,hello")),
  "a data URL in Base64": ({ fetch }) => outcome(fetch("data:text/plain;base64,aGVsbG8=")),
  "an invalid data URL": ({ fetch }) => outcome(fetch("data:no comma")),
  "a blob URL": async ({ fetch }) => {
    const response = await fetch(URL.createObjectURL(new Blob(["blob"], { type: "text/x" })));
    return [response.status, await response.text(), response.headers.get("Content-Type")];
  },
  "a blob URL that is not one": ({ fetch }) => outcome(fetch("blob:not-valid")),
  "about:blank": ({ fetch }) => outcome(fetch("about:blank")),
  "an unknown scheme": ({ fetch }) => outcome(fetch("unknown://host/path")),
  "a connection that is closed": get("/broken"),
  "a port where nothing listens": ({ fetch }) => outcome(fetch("http://127.0.0.1:9/")),
  "a blocked port": ({ fetch }) => outcome(fetch("http://127.0.0.1:22/")),
  "JSON with a byte-order mark": async ({ fetch, at }) => (await fetch(at("/json"))).json(),
  "text with a byte-order mark": async ({ fetch, at }) => (await fetch(at("/json"))).text(),
  "text that is no UTF-8": async ({ fetch, at }) => (await (await fetch(at("/file"))).text()).length,
  "what is no JSON": async ({ fetch, at }) => rejection((await fetch(at("/text"))).json()),
  "a blob": async ({ fetch, at }) => {
    const blob = await (await fetch(at("/file?type=Text/X-Test"))).blob();
    return [blob.size, blob.type, sum(await blob.arrayBuffer())];
  },
  "a blob without a type": async ({ fetch, at }) => (await (await fetch(at("/file"))).blob()).type,
  "a form": async ({ fetch, at }) => {
    const response = await fetch(at("/text?text=a%3Db%26c%3Dd&type=application/x-www-form-urlencoded"));
    return [...(await response.formData())];
  },
  "a body that is read twice": async ({ fetch, at }) => {
    const response = await fetch(at("/file"));
    await response.arrayBuffer();
    return [await rejection(response.text()), response.bodyUsed, await rejection((async () => response.clone())())];
  },
  "a body that is locked": async ({ fetch, at }) => {
    const response = await fetch(at("/file"));
    response.body.getReader();
    return [await rejection(response.text()), response.bodyUsed];
  },
  "a clone": async ({ fetch, at }) => {
    const response = await fetch(at("/file"));
    const clone = response.clone();
    const bodies = await Promise.all([response.arrayBuffer(), clone.arrayBuffer()]);
    return [headOf(clone), ...bodies.map(sum)];
  },
  "a stream": async ({ fetch, at }) => {
    let length = 0;
    const response = await fetch(at("/file"));
    for await (const piece of response.body) length += piece.length;
    return [length, response.bodyUsed];
  },
  "a stream that is cancelled": async ({ fetch, at }) => {
    const response = await fetch(at("/file"));
    const reader = response.body.getReader();
    await reader.read();
    await reader.cancel();
    return (await reader.read()).done;
  },
  "a stream that a Response takes": async ({ fetch, at }) =>
    sum(await new Response((await fetch(at("/file"))).body).arrayBuffer()),
  "the headers of a response cannot be changed": async ({ fetch, at }) => {
    const { headers } = await fetch(at("/file"));
    const attempts = [() => headers.set("a", "b"), () => headers.append("a", "b"), () => headers.delete("etag")];
    return Promise.all(attempts.map((attempt) => rejection((async () => attempt())())));
  },
  "the class of a response": async ({ fetch, at }) => {
    const response = await fetch(at("/file"));
    const isStream = response.body instanceof ReadableStream;
    return [response instanceof Response, Object.prototype.toString.call(response), isStream];
  },

  // status
  ...named("a status", STATUSES, (code) => get(`/status?code=${code}`)),
  ...named("a status that is tried again", [408, 425, 429, 500, 502, 503, 504], (code) => get(`/status?code=${code}`)),
  "a connection that breaks": async ({ fetch, at }) => {
    const response = await fetch(at("/cut"));
    return [response.status, await rejection(response.arrayBuffer())];
  },
  "a text of a status": get("/status?code=404&text=Nothing%20here"),
  "a text of a success": get("/status?code=200&text=Fine"),
  "an error with a type": get("/status?code=400&type=application/problem%2Bjson&body={}"),
  "a missing file": get("/missing"),
  "a null body": async ({ fetch, at }) => (await fetch(at("/status?code=204"))).body,
  "a server that refuses ranges": get("/no-ranges"),
  "a server that sends other ranges": get("/wrong-range"),

  // bodies that have not arrived
  "an endless body": endless("/endless"),
  "an endless body of known length": endless("/endless-range"),
  "an endless body of a missing file": endless("/endless?status=404"),
  "an endless body of a failure": endless("/endless?status=501"),

  // methods
  "HEAD": withMethod("HEAD"),
  "HEAD of a file": get("/file", { method: "HEAD" }),
  "POST": withMethod("POST", "body"),
  "PUT": withMethod("PUT", "body"),
  "PATCH": withMethod("PATCH", "body"),
  "DELETE": withMethod("DELETE"),
  "OPTIONS": withMethod("OPTIONS"),
  "a method in lower case": withMethod("get"),
  "a method of one's own": withMethod("CHICKEN"),
  "a POST that is a Request": async ({ fetch, at }) =>
    (await fetch(new Request(at("/echo"), { method: "POST", body: "body" }))).text(),

  // headers
  ...named("headers", headers, (value) => async ({ fetch, at }) =>
    (await fetch(at("/echo"), { headers: value })).json()),
  "headers of a Request": async ({ fetch, at }) =>
    (await fetch(new Request(at("/echo"), { headers: { a: "1", b: "2" } }))).json(),
  "headers in place of those of a Request": async ({ fetch, at }) =>
    (await fetch(new Request(at("/echo"), { headers: { a: "1" } }), { headers: { b: "2" } })).json(),
  "a referrer": async ({ fetch, at }) => (await fetch(at("/echo"), { referrer: at("/page") })).json(),
  "a referrer of a Request": async ({ fetch, at }) =>
    (await fetch(new Request(at("/echo"), { referrer: at("/page") }))).json(),
  "no referrer": async ({ fetch, at }) =>
    (await fetch(at("/echo"), { referrer: "", referrerPolicy: "no-referrer" })).json(),

  // options
  ...named("an invalid call", badInits, (init) => get("/file", init)),
  ...named("integrity", integrities, (integrity) => get("/file", { integrity })),
  "integrity of a Request": ({ fetch, at }) =>
    outcome(fetch(new Request(at("/file"), { integrity: digest("sha256", content.subarray(1)) }))),
  ...named("credentials", ["omit", "same-origin", "include"], (credentials) => get("/file", { credentials })),
  ...named("a cache mode", ["default", "no-store", "reload", "no-cache", "force-cache"], (cache) =>
    get("/file", { cache })),
  "only what is cached": get("/file", { cache: "only-if-cached", mode: "same-origin" }),
  "no-cors": get("/file", { mode: "no-cors" }),
  "keepalive": get("/file", { keepalive: true }),
  "priority": get("/file", { priority: "low" }),

  // redirects
  ...named("a redirect", [301, 302, 303, 307, 308], (code) => get(`/redirect?code=${code}&to=/file`)),
  "two redirects": get(`/redirect?to=${encodeURIComponent("/redirect?to=/file")}`),
  "a redirect to a missing file": get("/redirect?to=/missing"),
  "a redirect with a fragment": get(`/redirect?to=${encodeURIComponent("/file#part")}`),
  "a redirect to another origin": ({ fetch, at, elsewhere }) =>
    outcome(fetch(at(`/redirect?to=${encodeURIComponent(elsewhere("/file"))}`))),
  "a redirect without an end": get(`/redirect?to=${encodeURIComponent("/loop")}`),
  "a redirect to an invalid URL": get(`/redirect?to=${encodeURIComponent("http://:80")}`),
  "a redirect that is an error": get("/redirect?to=/file", { redirect: "error" }),
  "a redirect by hand": get("/redirect?to=/file", { redirect: "manual" }),
  "no redirect by hand": get("/file", { redirect: "manual" }),
  "a redirect of HEAD": get("/redirect?to=/file", { method: "HEAD" }),

  // ranges
  ...named("Range", ranges, (range) => get("/file", { headers: { Range: range } })),
  ...named("Range and a server that ignores it", ranges, (range) => get("/whole", { headers: { Range: range } })),
  "a range of a Request": ({ fetch, at }) =>
    outcome(fetch(new Request(at("/file"), { headers: { Range: "bytes=5-9" } }))),
  "a range of an empty file": get("/empty", { headers: { Range: "bytes=0-" } }),
  "a range of a missing file": get("/missing", { headers: { Range: "bytes=0-9" } }),
  "a range of a compressed file": get("/gzip", { headers: { Range: "bytes=0-9" } }),
  "a range through a redirect": get("/redirect?to=/file", { headers: { Range: "bytes=7-9" } }),
  "a range of HEAD": get("/file", { method: "HEAD", headers: { Range: "bytes=0-9" } }),
  ...named("If-Range with", ifRanges, (condition) =>
    get("/file", { headers: { Range: "bytes=10-19", "If-Range": condition } })),
  "If-Range without Range": get("/file", { headers: { "If-Range": '"other"' } }),
  ...named("a condition", conditions, (condition) => get("/conditional", { headers: condition })),

  // aborts
  "an abort before the call": async ({ fetch, at, log }) => {
    const outcome = await rejection(fetch(at("/file"), { signal: AbortSignal.abort() }));
    return [outcome, log.length];
  },
  "an abort before the call with a reason": async ({ fetch, at }) => {
    const reason = new Error("mine");
    return fetch(at("/file"), { signal: AbortSignal.abort(reason) }).catch((error) => error === reason);
  },
  "an abort of a Request": async ({ fetch, at }) =>
    rejection(fetch(new Request(at("/file"), { signal: AbortSignal.abort() }))),
  "an abort of a Request whose signal is replaced": ({ fetch, at }) =>
    outcome(fetch(new Request(at("/file"), { signal: AbortSignal.abort() }), { signal: null })),
  "an invalid call that is aborted": async ({ fetch, at }) =>
    rejection(fetch(at("/file"), { signal: AbortSignal.abort(), method: "G ET" })),
  "an abort of POST": async ({ fetch, at }) =>
    rejection(fetch(at("/echo"), { method: "POST", body: "body", signal: AbortSignal.abort() })),
  "an abort while nothing arrives": async ({ fetch, at, log }) => {
    const controller = new AbortController();
    const pending = fetch(at("/silent"), { signal: controller.signal });
    while (log.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    controller.abort();
    return rejection(pending);
  },
  ...named("an abort before", ["arrayBuffer", "blob", "text", "json"], (method) =>
    aborted("/endless", (response) => rejection(response[method]()))),
  ...named("an abort of an error before", ["arrayBuffer", "text"], (method) =>
    aborted("/endless?status=404", (response) => rejection(response[method]()))),
  "an abort of a stream": aborted("/endless", async (response) => {
    const reader = response.body.getReader();
    return [await rejection(reader.read()), await rejection(reader.closed)];
  }),
  "an abort of a read that waits": async ({ fetch, at }) => {
    const controller = new AbortController();
    const response = await fetch(at("/endless-range"), { signal: controller.signal });
    const reader = response.body.getReader();
    await reader.read();
    const pending = rejection(reader.read());
    controller.abort();
    return pending;
  },
  "an abort after the end": async ({ fetch, at }) => {
    const controller = new AbortController();
    const response = await fetch(at("/file"), { signal: controller.signal });
    const bytes = await response.arrayBuffer();
    controller.abort();
    return [bytes.byteLength, response.bodyUsed];
  },
  "a timeout": async ({ fetch, at }) => rejection(fetch(at("/silent"), { signal: AbortSignal.timeout(20) })),
};
