// createFetch: a drop-in fetch.
import { Failures, LoadError, RETRY, content, createFetch, hex, serverOf } from "./common.js";

const file = content(2_000_000);
const URL_OF_FILE = new URL("/model.bin", location.href).href;

const fetchOf = (server, options) => createFetch({ fetch: server.fetch, cache: "none", retry: RETRY, ...options });

export async function wholeFiles() {
  const failures = new Failures();
  const server = serverOf(file);
  const response = await fetchOf(server)("/model.bin");
  failures.same("a response", [response instanceof Response, response.ok, response.status, response.url],
    [true, true, 200, URL_OF_FILE]);
  failures.same("headers", [response.headers.get("Content-Length"), response.headers.get("Content-Type")],
    [String(file.length), "application/test"]);
  failures.same("the bytes", await hex(await response.arrayBuffer()), await hex(file));
  failures.same("it is used", response.bodyUsed, true);
  const again = await fetchOf(server)(new Request(URL_OF_FILE));
  const clone = again.clone();
  failures.same("a clone", [await hex(await again.arrayBuffer()), await hex(await (await clone.blob()).arrayBuffer())],
    [await hex(file), await hex(file)]);
  const json = serverOf(new TextEncoder().encode('{"a":1}'), () => ({ type: "application/json" }));
  failures.same("JSON", await (await fetchOf(json)("/a.json")).json(), { a: 1 });
  return failures;
}

export async function ranges() {
  const failures = new Failures();
  const get = async (range) => {
    const response = await fetchOf(serverOf(file))("/model.bin", { headers: { Range: range } });
    const bytes = new Uint8Array(await response.arrayBuffer());
    return [response.status, response.headers.get("Content-Range"), bytes.length, bytes[0]];
  };
  failures.same("the first byte", await get("bytes=0-0"), [206, "bytes 0-0/2000000", 1, file[0]]);
  const middle = [206, "bytes 100000-199999/2000000", 100_000, file[100_000]];
  failures.same("a range", await get("bytes=100000-199999"), middle);
  failures.same("to the end", await get("bytes=1999990-"), [206, "bytes 1999990-1999999/2000000", 10, file[1_999_990]]);
  failures.same("the last bytes", await get("bytes=-10"), [206, "bytes 1999990-1999999/2000000", 10, file[1_999_990]]);
  failures.same("beyond the end", (await get("bytes=2000000-")).slice(0, 2), [416, "bytes */2000000"]);
  return failures;
}

export async function brokenDownloads() {
  const failures = new Failures();
  const server = serverOf(file, (number) => (number < 4 ? { cutAfter: 400_000 } : {}));
  const response = await fetchOf(server)("/model.bin");
  failures.same("the bytes", await hex(await response.arrayBuffer()), await hex(file));
  return failures;
}

export async function errors() {
  const failures = new Failures();
  const missing = await fetchOf(serverOf(file, () => ({ status: 404 })))("/model.bin");
  const found = [missing.status, missing.ok, await missing.text(), missing.url];
  failures.same("404", found, [404, false, "status 404", URL_OF_FILE]);
  const broken = () => fetchOf(serverOf(file, (number) => ({ cutAfter: number > 0 ? 0 : 400_000 })))("/model.bin");
  for (const method of ["arrayBuffer", "blob", "bytes", "json", "text"]) {
    await failures.rejects(method, (await broken())[method](), "NETWORK");
  }
  await failures.rejects("the reader", (async () => {
    const reader = (await broken()).body.getReader();
    while (!(await reader.read()).done);
  })(), "NETWORK");
  return failures;
}

export async function aborts() {
  const failures = new Failures();
  const reason = new Error("the user left");
  const aborted = async (use) => {
    const controller = new AbortController();
    const fetch = fetchOf(serverOf(file, () => ({ delay: 30 })));
    setTimeout(() => controller.abort(reason), 200);
    const response = await fetch("/model.bin", { signal: controller.signal });
    return use(response);
  };
  await failures.rejects("arrayBuffer", aborted((response) => response.arrayBuffer()), "the user left");
  await failures.rejects("json", aborted((response) => response.json()), "the user left");
  await failures.rejects("the reader", aborted(async (response) => {
    const reader = response.body.getReader();
    while (!(await reader.read()).done);
  }), "the user left");
  const signal = AbortSignal.abort(reason);
  await failures.rejects("before the start", fetchOf(serverOf(file))("/model.bin", { signal }), "the user left");
  return failures;
}

export async function wrongOptions() {
  const failures = new Failures();
  const attempt = async (options) => createFetch(options);
  await failures.rejects("an unknown option", attempt({ cach: "none" }), "INVALID_ARGUMENT", "`cache`");
  await failures.rejects("a wrong value", attempt({ retry: { attempts: -1 } }), "INVALID_ARGUMENT", "retry.attempts");
  await failures.rejects("an option of openFile", attempt({ digest: "sha256:00" }), "INVALID_ARGUMENT", "openFile()");
  await failures.rejects("no object", attempt(null), "INVALID_ARGUMENT");
  const pairs = new Map([["X-Test", "1"]]);
  const server = serverOf(file);
  const seen = [];
  const fetch = createFetch({
    cache: "none",
    headers: pairs.entries(), // can be read only once
    fetch: (url, init) => (seen.push(new Headers(init.headers).get("X-Test")), server.fetch(url, init)),
  });
  for (let at = 0; at < 2; at++) await (await fetch("/model.bin")).arrayBuffer();
  failures.same("headers", seen, ["1", "1"]);
  return failures;
}

export async function otherRequests() {
  const failures = new Failures();
  const calls = [];
  const fetch = createFetch({ fetch: async (...call) => (calls.push(call), new Response("posted")), cache: "none" });
  failures.same("POST", await (await fetch("/api", { method: "POST", body: "x" })).text(), "posted");
  await fetch(new Request("/api", { method: "POST", body: "x" }));
  failures.same("the body of a Request", await calls.pop()[0].text(), "x");
  failures.same("the call", [calls.length, calls[0][1].method], [1, "POST"]);
  const data = await createFetch({ cache: "none" })("data:text/plain,hello");
  failures.same("a data URL", await data.text(), "hello");
  failures.same("LoadError", typeof LoadError, "function");
  return failures;
}
