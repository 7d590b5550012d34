// A scripted `fetch` of one file. `behaviour` selects how it deviates from a correct server.

export function server(bytes, behaviour) {
  const log = [];
  const fetch = async (url, init) => {
    const range = new Headers(init.headers).get("Range");
    log.push(
      {
        url, range, headers: Object.fromEntries(new Headers(init.headers)), credentials: init.credentials,
        signal: init.signal,
      },
    );
    const count = log.length;
    const requested = range?.match(/^bytes=(\d+)-(\d+)$/);
    const start = requested ? Number(requested[1]) : 0;
    const end = requested ? Math.min(Number(requested[2]) + 1, bytes.length) : bytes.length;
    const partial = (slice = bytes.slice(start, end), headers = {}) =>
      new Response(stream(slice, behaviour, init.signal), {
        status: 206,
        headers: {
          "Content-Range": `bytes ${start}-${end - 1}/${bytes.length}`, "Content-Length": String(slice.length),
          ETag: '"v1"', ...headers,
        },
      });
    const whole = (headers = {}) =>
      new Response(
        stream(bytes, behaviour, init.signal),
        { status: 200, headers: { "Content-Length": String(bytes.length), ...headers } },
      );
    switch (behaviour) {
      case "ignores-ranges": return whole();
      case "hides-headers": return new Response(
        stream(bytes.slice(start, end), behaviour),
        { status: 206, headers: { "Content-Length": String(end - start) } },
      );
      case "sends-another-range": return partial(
        bytes.slice(start + 1, end + 1), { "Content-Range": `bytes ${start + 1}-${end}/${bytes.length + 1}` },
      );
      case "one-byte-more": return partial(
        bytes.slice(start, end + 1), { "Content-Range": `bytes ${start}-${end}/${bytes.length + 1}` },
      );
      case "encoded-ranges": return requested ? partial(undefined, { "Content-Encoding": "gzip" }) : whole();
      case "is-busy-at-first": return count < 3 ? new Response("", { status: 503 }) : partial();
      case "cuts-now-and-then": return partial(
        count === 1 ? undefined : bytes.slice(start, Math.min(end, start + 50000)),
        { "Content-Length": String(end - start) },
      );
      case "breaks-now-and-then": return count === 1 ? partial() : new Response(
        breaking(bytes.slice(start, end), 50000),
        { status: 206, headers: { "Content-Range": `bytes ${start}-${end - 1}/${bytes.length}` } },
      );
      case "stalls-once": return count === 2 ? new Response(
        new ReadableStream({ type: "bytes" }),
        { status: 206, headers: { "Content-Range": `bytes ${start}-${end - 1}/${bytes.length}` } },
      ) : partial();
      case "cuts-bodies": return partial(
        bytes.slice(start, count === 1 ? end : Math.floor((start + end) / 2)),
        { "Content-Length": String(end - start) },
      );
      case "responds-once": return count === 1 ? partial() : new Promise(() => {});
      case "changes": return partial(undefined, { ETag: count === 1 ? '"v1"' : '"v2"' });
      case "forbids": return new Response("no", { status: 403 });
      case "fails": throw new TypeError("Failed to fetch");
      default: return partial();
    }
  };
  return {
    fetch,
    requests: () => log.length,
    ranges: () => log.map((entry) => entry.range),
    aborted: () => log.filter((entry) => entry.signal.aborted).length,
    credentials: () => log.map(
      (entry) => `${new URL(entry.url).pathname} ${entry.headers.authorization} ${entry.credentials}`,
    ),
  };
}

// A byte stream whose connection breaks after `limit` bytes.
function breaking(bytes, limit) {
  let at = 0;
  return new ReadableStream({
    type: "bytes",
    pull(controller) {
      if (at >= Math.min(limit, bytes.length)) {
        if (at < bytes.length) return controller.error(new TypeError("network error"));
        controller.close();
        return controller.byobRequest?.respond(0);
      }
      const chunk = bytes.slice(at, Math.min(at + 20000, limit));
      at += chunk.length;
      controller.enqueue(chunk);
    },
  });
}

// Chunks of odd sizes. A byte stream supports BYOB readers; "no-byte-stream" is what the fetch of WebKit returns.
function stream(bytes, behaviour, signal) {
  let at = 0;
  const sizes = [1, 18, 3000, 65536, 7];
  let turn = 0;
  const pull = (controller) => {
    if (behaviour === "never-ends" && at > 70000) return new Promise(
      (_, reject) => signal.addEventListener("abort", () => reject(signal.reason)),
    );
    if (at >= bytes.length) {
      controller.close();
      controller.byobRequest?.respond(0);
      return;
    }
    const chunk = bytes.slice(at, at + sizes[turn++ % sizes.length]);
    at += chunk.length;
    controller.enqueue(chunk);
  };
  return behaviour === "no-byte-stream" ? new ReadableStream({ pull }) : new ReadableStream({ type: "bytes", pull });
}
