// Streams of files, read as LiteRT-LM and the LLM inference task of MediaPipe read the streams they are given. The
// runtimes themselves are too large for the tests: their packages have 108 and 80 MB.
import { Failures, RETRY, content, hex, openFile, serverOf } from "./common.js";

const file = content(3_000_000);

const open = (server, options) =>
  openFile("/model.litertlm", { fetch: server.fetch, cache: "none", retry: RETRY, ...options });

const openRequests = ({ requests }) =>
  requests.filter(({ sent, start, end, isAborted }) => !isAborted && sent < end - start).length;

// As LiteRT-LM: a BYOB reader fills each part of a buffer with several reads, and the buffer moves with every read.
// A browser without byte streams has a default reader only. The reader is neither cancelled nor released.
function partsOf(stream) {
  let reader;
  try {
    reader = stream.getReader({ mode: "byob" });
  } catch {
    reader = undefined;
  }
  const ordinary = reader ? undefined : stream.getReader();
  let rest = new Uint8Array(0);
  const readInto = async (view) => {
    if (reader) return reader.read(view);
    if (rest.length === 0) rest = (await ordinary.read()).value ?? rest;
    const part = rest.subarray(0, view.length);
    rest = rest.subarray(part.length);
    view.set(part);
    return { value: view.subarray(0, part.length), done: part.length === 0 };
  };
  return async (length) => {
    let buffer = new ArrayBuffer(length + 8);
    for (let at = 0; at < length;) {
      const { value, done } = await readInto(new Uint8Array(buffer, 8 + at, length - at));
      if (!value) throw new Error("no value");
      if (done) throw new Error("early end");
      at += value.byteLength;
      buffer = value.buffer;
    }
    return new Uint8Array(buffer, 8, length);
  };
}

// As LiteRT-LM without streaming: all chunks are kept until the end.
async function chunksOf(stream) {
  const reader = stream.getReader();
  const chunks = [];
  for (let next; !(next = await reader.read()).done;) chunks.push(next.value);
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

// As MediaPipe: the format is read from one of two streams of the same chunks, the model from the other one. Chunks are
// addressed by their buffers, from its first byte.
async function modelOf(reader) {
  if (!(reader instanceof ReadableStreamDefaultReader)) throw new Error("no reader");
  const branch = new ReadableStream({
    async pull(controller) {
      const { value, done } = await reader.read();
      if (value) controller.enqueue(value);
      if (done) controller.close();
    },
    cancel: (reason) => reader.cancel(reason),
  });
  const [first, second] = branch.tee();
  const detecting = first.getReader();
  const { value } = await detecting.read();
  const format = value.slice(0, 8);
  const cancelled = detecting.cancel();
  const loading = second.getReader();
  const parts = [];
  for (let next; !(next = await loading.read()).done;) {
    parts.push(new Uint8Array(next.value.buffer, 0, next.value.length));
  }
  await cancelled;
  return { format, bytes: new Uint8Array(await new Blob(parts).arrayBuffer()) };
}

const streams = [["stream()", (remote) => remote.stream()], ["blob()", (remote) => remote.blob().stream()]];

export async function partsAreRead() {
  const failures = new Failures();
  for (const [name, streamOf] of streams) {
    const server = serverOf(file, (number) => (number > 0 && number < 5 ? { cutAfter: 300_000 } : {}));
    const remote = await open(server);
    const read = partsOf(streamOf(remote));
    let at = 0;
    for (const length of [8, 24, 70_001, 1_000_000, 3, 1_500_000]) {
      failures.same(`${name}, ${length}`, await hex(await read(length)), await hex(file.slice(at, at + length)));
      at += length;
    }
    failures.same(`${name}, the rest`, await hex(await read(file.length - at)), await hex(file.slice(at)));
    await failures.rejects(`${name}, the end`, read(1), "early end");
    failures.same(`${name}, bytes sent twice`, server.sent() < file.length * 1.1, true);
  }
  return failures;
}

// LiteRT-LM leaves the stream open when it needs no more of it, and when it fails.
export async function closingTheFileEndsAStreamThatIsLeftOpen() {
  const failures = new Failures();
  for (const [name, streamOf] of streams) {
    const server = serverOf(file);
    const remote = await open(server);
    const read = partsOf(streamOf(remote));
    failures.same(`${name}, a part`, await hex(await read(100_000)), await hex(file.slice(0, 100_000)));
    remote.close();
    await failures.rejects(`${name}, later`, read(1_000_000), "CLOSED");
    failures.same(`${name}, open requests`, openRequests(server), 0);
  }
  return failures;
}

export async function wholeModels() {
  const failures = new Failures();
  const script = (number) => (number > 0 && number < 5 ? { cutAfter: 300_000 } : {});
  for (const [name, streamOf] of streams) {
    const remote = await open(serverOf(file, script));
    failures.same(`LiteRT-LM, ${name}`, await hex(await chunksOf(streamOf(remote))), await hex(file));
    const other = await open(serverOf(file, script));
    const { format, bytes } = await modelOf(streamOf(other).getReader());
    failures.same(`MediaPipe, ${name}: the format`, Array.from(format), Array.from(file.slice(0, 8)));
    failures.same(`MediaPipe, ${name}`, await hex(bytes), await hex(file));
  }
  return failures;
}

export async function cancelledReaders() {
  const failures = new Failures();
  for (const [name, streamOf] of streams) {
    const server = serverOf(file);
    const remote = await open(server);
    const reader = streamOf(remote).getReader();
    await reader.read();
    await reader.cancel();
    failures.same(`${name}, the end`, (await reader.read()).done, true);
    remote.close();
    failures.same(`${name}, open requests`, openRequests(server), 0);
  }
  return failures;
}

export async function errors() {
  const failures = new Failures();
  const reason = new Error("the user left");
  const digest = `sha256:${await hex(file.slice(1))}`;
  const refuse = (number) => (number > 0 ? { status: 403 } : {});
  for (const [name, streamOf] of streams) {
    const refused = streamOf(await open(serverOf(file, refuse)));
    const changed = await open(serverOf(file), { digest });
    await failures.rejects(`${name}, a wrong digest`, partsOf(streamOf(changed))(file.length), "CHECKSUM");
    await failures.rejects(`${name}, a refused request`, partsOf(refused)(file.length), "HTTP", "403");
    const reader = streamOf(changed).getReader();
    await failures.rejects(`${name}, MediaPipe`, modelOf(reader), "CHECKSUM");
  }
  for (const consume of [(stream) => partsOf(stream)(file.length), (stream) => modelOf(stream.getReader())]) {
    const controller = new AbortController();
    const server = serverOf(file, (number) => {
      if (number === 1) controller.abort(reason);
      return {};
    });
    const remote = await open(server);
    await failures.rejects("an abort", consume(remote.stream({ signal: controller.signal })), "the user left");
  }
  return failures;
}
