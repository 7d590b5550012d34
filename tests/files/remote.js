// RemoteFile: bytes, streams, digests, aborts, progress.
import { Failures, RETRY, collect, content, hex, openFile, serverOf } from "./common.js";

const file = content(3_000_000);

export async function bytes() {
  const failures = new Failures();
  const server = serverOf(file);
  const remote = await openFile("/model.bin", { fetch: server.fetch, cache: "none", retry: RETRY });
  failures.same("length and type", [remote.byteLength, remote.type], [file.length, "application/test"]);
  failures.same("opening", [server.requests.length, server.requests[0].end], [1, 65_536]);
  failures.same("a range", await hex(await remote.bytes(70_000, 80_001)), await hex(file.slice(70_000, 80_001)));
  failures.same("a range beyond the end", (await remote.bytes(2_999_999, 5_000_000)).length, 1);
  failures.same("an empty range", (await remote.bytes(10, 10)).length, 0);
  failures.same("all", await hex(await remote.arrayBuffer()), await hex(file));
  failures.same("a stream", await hex(await collect(remote.stream({ start: 5, end: 2_000_000 }))),
    await hex(file.slice(5, 2_000_000)));
  const json = serverOf(new TextEncoder().encode('{"a":[1]}'));
  const small = await openFile("/a.json", { fetch: json.fetch, cache: "none" });
  failures.same("JSON", await small.json(), { a: [1] });
  failures.same("text", await small.text(), '{"a":[1]}');
  await failures.rejects("several files", openFile([new File([], "a"), new File([], "b")]), "INVALID_ARGUMENT", "one");
  const empty = await openFile(new Blob([]), {});
  failures.same("an empty file", [empty.byteLength, (await empty.bytes()).length], [0, 0]);
  remote.close();
  await failures.rejects("a closed file", remote.bytes(), "CLOSED");
  return failures;
}

export async function byob() {
  const failures = new Failures();
  const remote = await openFile("/model.bin", { fetch: serverOf(file).fetch, cache: "none", retry: RETRY });
  if (!globalThis.ReadableByteStreamController) return failures; // WebKitGTK
  const reader = remote.stream().getReader({ mode: "byob" });
  const all = new Uint8Array(file.length);
  for (let at = 0, view = new Uint8Array(100_000); ;) {
    const { value, done } = await reader.read(view);
    if (done) break;
    all.set(value, at);
    at += value.length;
    view = new Uint8Array(value.buffer);
  }
  failures.same("the bytes", await hex(all), await hex(file));
  return failures;
}

export async function resumption() {
  const failures = new Failures();
  const server = serverOf(file, (number) => (number > 0 && number < 5 ? { cutAfter: 300_000 } : {}));
  const remote = await openFile("/model.bin", { fetch: server.fetch, cache: "none", retry: RETRY });
  failures.same("the bytes", await hex(await remote.bytes()), await hex(file));
  failures.same("bytes sent twice", server.sent() < file.length * 1.1, true);
  return failures;
}

export async function digests() {
  const failures = new Failures();
  const open = (digest, script) =>
    openFile("/model.bin", { fetch: serverOf(file, script).fetch, cache: "none", retry: RETRY, digest });
  const right = await open(`sha256:${await hex(file)}`);
  failures.same("the right digest", (await right.bytes()).length, file.length);
  failures.same("a stream of all", (await collect(right.stream())).length, file.length);
  for (const script of [undefined, () => ({ isChunked: true })]) {
    const wrong = await open(`sha256:${await hex(file.slice(1))}`, script);
    failures.same("a range is not verified", (await wrong.bytes(0, 10)).length, 10);
    const reader = wrong.stream().getReader();
    let delivered = 0;
    const drain = async () => {
      for (let next; !(next = await reader.read()).done;) delivered += next.value.length;
    };
    await failures.rejects("a wrong digest", wrong.arrayBuffer(), "CHECKSUM", "sha256");
    await failures.rejects("its stream", drain(), "CHECKSUM");
    failures.same("the last bytes are not delivered", delivered < file.length, true);
    await failures.rejects("its response", wrong.response().arrayBuffer(), "CHECKSUM");
  }
  await failures.rejects("an invalid digest", open("md5:00"), "INVALID_ARGUMENT", "`digest`");
  return failures;
}

export async function unknownLength() {
  const failures = new Failures();
  const remote = await openFile("/model.bin", {
    fetch: serverOf(file, () => ({ isChunked: true })).fetch, cache: "none", retry: RETRY,
  });
  failures.same("the length", remote.byteLength, undefined);
  await failures.rejects("a Blob", (async () => remote.blob())(), "UNSUPPORTED", "length");
  failures.same("the bytes", await hex(await remote.bytes()), await hex(file));
  return failures;
}

export async function aborts() {
  const failures = new Failures();
  const reason = new Error("the user left");
  const server = serverOf(file, () => ({ delay: 20 }));
  const remote = await openFile("/model.bin", { fetch: server.fetch, cache: "none", retry: RETRY });
  const read = async (start) => {
    const controller = new AbortController();
    const pending = start(controller.signal);
    setTimeout(() => controller.abort(reason), 60);
    return pending;
  };
  await failures.rejects("bytes", read((signal) => remote.bytes(0, undefined, { signal })), "the user left");
  await failures.rejects("a stream", read((signal) => remote.stream({ signal }).getReader().read().then(
    () => collect(remote.stream({ signal })))), "");
  const reader = remote.stream().getReader();
  await reader.read();
  await reader.cancel();
  await new Promise((resolve) => setTimeout(resolve, 50));
  const open = server.requests.filter(({ sent, start, end, isAborted }) => !isAborted && sent < end - start);
  failures.same("requests that go on", open, []);
  return failures;
}

// A stream of which something was read, and nothing is being read, has a request that waits for the next read.
export async function idleStreams() {
  const failures = new Failures();
  const reason = new Error("the user left");
  const controller = new AbortController();
  const stops = {
    cancel: (reader) => reader.cancel(),
    abort: async (reader) => {
      controller.abort(reason);
      await failures.rejects("the next read", reader.read(), "the user left");
    },
  };
  for (const [name, stop] of Object.entries(stops)) {
    const server = serverOf(file, () => ({ delay: 1 }));
    const remote = await openFile("/model.bin", { fetch: server.fetch, cache: "none", retry: RETRY });
    const reader = remote.stream({ start: 100_000, signal: name === "abort" ? controller.signal : null }).getReader();
    await reader.read();
    const last = server.requests.at(-1);
    failures.same(`${name}: the request`, [last.start, last.isAborted], [100_000, false]);
    const stopped = stop(reader);
    for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setTimeout(resolve));
    failures.same(`${name}: the request is aborted`, last.isAborted, true);
    await stopped;
    remote.close();
  }
  return failures;
}

export async function progress() {
  const failures = new Failures();
  const events = [];
  const remote = await openFile("/model.bin", {
    fetch: serverOf(file).fetch, cache: "none", onProgress: (event) => events.push(event),
  });
  await remote.bytes();
  const last = events.at(-1);
  failures.same("the last event", [last.type, last.loaded, last.total, last.done],
    ["file", file.length, file.length, true]);
  return failures;
}
