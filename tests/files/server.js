// A file on a server that is implemented in JavaScript.

// Bytes that differ everywhere.
export function content(length) {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at++) bytes[at] = (at * 31 + (at >> 8) * 17) & 0xff;
  return bytes;
}

// A server as a `fetch`. It records the requested ranges and the number of bytes that were read of each response.
// `script` returns how to respond to a request: with a `status`, in chunks of unknown length, cut after some bytes,
// with other `bytes` or `validators`.
export function serverOf(file, script = () => ({})) {
  const requests = [];
  const fetch = async (url, { headers, signal } = {}) => {
    const {
      bytes = file, validators = { ETag: '"v1"' }, cutAfter = Infinity, status, isChunked = false, delay = 0,
      type = "application/test",
    } = script(requests.length, url);
    const match = isChunked ? null : /bytes=(\d+)-(\d*)/.exec(new Headers(headers).get("Range"));
    const last = match?.[2] ? Number(match[2]) : Infinity;
    const [start, end] = match ? [Number(match[1]), Math.min(last + 1, bytes.length)] : [0, bytes.length];
    const request = { start, end, sent: 0, isAborted: false };
    requests.push(request);
    if (status) return new Response(`status ${status}`, { status });
    if (match && start >= bytes.length) {
      return new Response(null, { status: 416, headers: { "Content-Range": `bytes */${bytes.length}` } });
    }
    let at = start;
    const body = new ReadableStream({
      async pull(controller) {
        await new Promise((resolve) => setTimeout(resolve, delay));
        if (signal?.aborted) return;
        if (at >= end) return controller.close();
        if (at - start >= cutAfter) return controller.error(new TypeError("network error"));
        const next = Math.min(at + 65_536, end, start + cutAfter);
        controller.enqueue(bytes.slice(at, next));
        request.sent += next - at;
        at = next;
      },
    }, { highWaterMark: 0 });
    signal?.addEventListener("abort", () => (request.isAborted = true));
    return new Response(body, {
      status: match ? 206 : 200,
      headers: {
        "Content-Type": type,
        ...validators,
        ...(match && { "Content-Range": `bytes ${start}-${end - 1}/${bytes.length}` }),
        ...(!isChunked && { "Content-Length": String(end - start) }),
      },
    });
  };
  return { fetch, requests, sent: () => requests.reduce((sum, { sent }) => sum + sent, 0) };
}

// A server for several files, by the end of their URLs, which knows no others.
export function serverOfFiles(files, script = () => ({})) {
  const servers = Object.entries(files).map(([name, bytes]) => ({ name, ...serverOf(bytes, script) }));
  return {
    fetch: async (url, init) =>
      servers.find(({ name }) => String(url).replace(/\?.*$/, "").endsWith(name))?.fetch(url, init) ??
        new Response("no such file", { status: 404 }),
    requests: () => servers.flatMap(({ requests }) => requests),
    sent: () => servers.reduce((sum, server) => sum + server.sent(), 0),
  };
}
