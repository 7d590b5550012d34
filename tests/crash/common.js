// Functions of all these tests. Each exported test resolves to an array with a message for each failed expectation.

export const MODEL = "/safetensors/basic.safetensors";

export const { StreamingLoader, LoadError } = await import("/pkg/weightstream.js");
export const { crashForTest } = await import("/pkg/weightstream.glue.js");

export const open = (source, options) =>
  StreamingLoader.open(source, { cache: "none", workers: 0, retry: { attempts: 1, baseDelay: 1 }, ...options });

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The outcome of a promise as text. A promise that stays pending is a failure.
export const outcome = (promise, limit = 10_000) =>
  Promise.race([
    Promise.resolve(promise).then(
      () => "done",
      (error) => (error instanceof LoadError ? `${error.code}: ${error.message}` : `no LoadError but ${error}`),
    ),
    pause(limit).then(() => "pending"),
  ]);

// Collects a message for each failed expectation.
export class Faults extends Array {
  expect(what, found, ...wanted) {
    const holds = wanted.every((one) => (one instanceof RegExp ? one.test(found) : String(found).includes(one)));
    if (!holds) this.push(`${what}: ${found}, not ${wanted.join(" and ")}`);
  }

  same(what, found, wanted) {
    const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
    if (a !== b) this.push(`${what}: ${a}, not ${b}`);
  }
}

// A SafeTensors file of `count` tensors of `size` bytes each.
export function safetensors(count, size, namesAsLongAs = 4) {
  const name = (at) => `t${at}`.padEnd(namesAsLongAs, ".");
  const entries = Array.from(
    { length: count },
    (_, at) => [name(at), { dtype: "U8", shape: [size], data_offsets: [at * size, (at + 1) * size] }],
  );
  const header = new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)));
  const file = new Uint8Array(8 + header.length + count * size).fill(7, 8 + header.length);
  new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
  file.set(header, 8);
  return file;
}

// A `fetch` of this file that delivers each body in chunks of 64 KiB and waits `ms` before each. It records its
// requests.
export function slowFetch(file, ms = 0) {
  const requests = [];
  const fetch = async (url, { headers, signal }) => {
    const [, first, last] = /bytes=(\d+)-(\d+)/.exec(new Headers(headers).get("Range"));
    const [start, end] = [Number(first), Math.min(Number(last) + 1, file.length)];
    const request = { start, end, sent: 0, isAborted: false, headers: Array.from(new Headers(headers)) };
    requests.push(request);
    let at = start;
    const body = new ReadableStream({
      type: "bytes",
      async pull(controller) {
        if (ms) await pause(ms);
        if (signal?.aborted || at >= end) return;
        const chunk = file.slice(at, Math.min(at + 65536, end));
        at += chunk.length;
        request.sent += chunk.length;
        controller.enqueue(chunk);
        if (at >= end) controller.close();
      },
    }, { highWaterMark: 0 });
    signal?.addEventListener("abort", () => (request.isAborted = at < end));
    return new Response(
      body, { status: 206, headers: { "Content-Range": `bytes ${start}-${end - 1}/${file.length}`, ETag: '"1"' } },
    );
  };
  return Object.assign(fetch, { requests });
}
