// Lazy Blobs, real files, and the cache.
import { Failures, RETRY, clearCache, collect, content, hex, openFile, serverOf } from "./common.js";

const file = content(3_000_000);

async function opened(options) {
  const server = serverOf(file);
  const remote = await openFile("/model.bin", { fetch: server.fetch, cache: "none", retry: RETRY, ...options });
  return { server, remote, blob: remote.blob() };
}

export async function readsOnlyItsRange() {
  const failures = new Failures();
  const { server, blob } = await opened();
  failures.same("it is a Blob", [blob instanceof Blob, blob.size, blob.type], [true, file.length, "application/test"]);
  const slice = blob.slice(1_000_000, 1_100_000, "Text/Plain");
  failures.same("a slice", [slice instanceof Blob, slice.size, slice.type], [true, 100_000, "text/plain"]);
  failures.same("its bytes", await hex(await slice.arrayBuffer()), await hex(file.slice(1_000_000, 1_100_000)));
  failures.same("what was sent", server.sent() <= 65_536 + 100_000 + 2 * 65_536, true);
  const end = await slice.slice(-10).arrayBuffer();
  failures.same("a slice of it", await hex(end), await hex(file.slice(1_099_990, 1_100_000)));
  failures.same("its stream", await hex(await collect(slice.stream())), await hex(file.slice(1_000_000, 1_100_000)));
  failures.same("requests for it", server.requests.length, 2);
  failures.same("an empty slice", (await blob.slice(5, 2).arrayBuffer()).byteLength, 0);
  failures.same("text", await blob.slice(0, 3).text(), new TextDecoder().decode(file.slice(0, 3)));
  return failures;
}

export async function overlappingReadsRequestNothingTwice() {
  const failures = new Failures();
  const { server, blob } = await opened();
  const ranges = [[100_000, 900_000], [500_000, 1_500_000], [0, 1_000_000], [700_000, 700_001], [1_200_000, 2_000_000]];
  const reads = ranges.map(async ([start, end]) => hex(await blob.slice(start, end).arrayBuffer()));
  const expected = await Promise.all(ranges.map(([start, end]) => hex(file.slice(start, end))));
  failures.same("the bytes", await Promise.all(reads), expected);
  const sorted = server.requests.slice(1).sort((a, b) => a.start - b.start);
  const overlap = sorted.some(({ start }, at) => at > 0 && start < sorted[at - 1].end);
  failures.same("ranges that overlap", overlap, false);
  const before = server.requests.length;
  await blob.slice(0, 2_000_000).arrayBuffer();
  failures.same("requests for what is known", server.requests.length - before, 0);
  return failures;
}

export async function cancelledReadsLeaveOthersAlone() {
  const failures = new Failures();
  const { blob } = await opened();
  const reader = blob.slice(0, 2_500_000).stream().getReader();
  const other = blob.slice(100_000, 2_400_000).arrayBuffer();
  await reader.read();
  await reader.cancel();
  failures.same("the other", await hex(await other), await hex(file.slice(100_000, 2_400_000)));
  return failures;
}

export async function littleMemory() {
  const failures = new Failures();
  const { blob } = await opened({ maxMemory: 0 });
  const reads = [0, 1, 2].map((at) => blob.slice(at * 500_000, at * 500_000 + 1_200_000).arrayBuffer());
  const hashes = await Promise.all((await Promise.all(reads)).map(hex));
  const expected = await Promise.all([0, 1, 2].map((at) => hex(file.slice(at * 500_000, at * 500_000 + 1_200_000))));
  failures.same("the bytes", hashes, expected);
  return failures;
}

export async function afterTheFileIsClosed() {
  const failures = new Failures();
  const { remote, blob } = await opened();
  await blob.slice(0, 1_000_000).arrayBuffer();
  const pending = blob.slice(1_000_000, 3_000_000).arrayBuffer();
  remote.close();
  await failures.rejects("a pending read", pending, "CLOSED");
  await failures.rejects("what was in memory", blob.slice(0, 1000).arrayBuffer(), "CLOSED");
  await failures.rejects("its stream", blob.slice(0, 1000).stream().getReader().read(), "CLOSED");
  await failures.rejects("the whole Blob", blob.arrayBuffer(), "CLOSED");
  return failures;
}

export async function whatItCannotDoFailsLoudly() {
  const failures = new Failures();
  const { blob } = await opened();
  const attempts = {
    structuredClone: () => structuredClone(blob),
    postMessage: () => new MessageChannel().port1.postMessage(blob),
    createObjectURL: () => URL.createObjectURL(blob),
    "new Response": () => new Response(blob),
    "new Blob": () => new Blob([blob]),
    FileReader: () => new FileReader().readAsArrayBuffer(blob),
  };
  for (const [name, attempt] of Object.entries(attempts)) {
    let error;
    try {
      attempt();
    } catch (thrown) {
      error = thrown;
    }
    failures.same(`${name} throws`, error instanceof Error || error instanceof DOMException, true);
  }
  return failures;
}

export async function storedFiles() {
  const failures = new Failures();
  const { remote } = await opened({ digest: `sha256:${await hex(file)}` });
  let stored;
  try {
    stored = await remote.file();
  } catch (error) {
    const canWrite = globalThis.FileSystemFileHandle && "createWritable" in FileSystemFileHandle.prototype;
    failures.same("an error", [error.code, Boolean(canWrite)], ["UNSUPPORTED", false]);
    return failures;
  }
  failures.same("a File", [stored instanceof File, stored.name, stored.size], [true, "model.bin", file.length]);
  failures.same("its clone", await hex(await structuredClone(stored).arrayBuffer()), await hex(file));
  const [one, other] = await Promise.all(["1", "22"].map(async (text) => (await openFile(new Blob([text]))).file()));
  failures.same("files of Blobs", [await one.text(), await other.text()], ["1", "22"]);
  const { remote: wrong } = await opened({ digest: `sha256:${await hex(file.slice(1))}` });
  await failures.rejects("a wrong digest", wrong.file(), "CHECKSUM");
  await clearCache();
  return failures;
}

export async function cached() {
  const failures = new Failures();
  await clearCache();
  const cold = await opened({ cache: "auto" });
  failures.same("cold", await hex(await cold.remote.bytes()), await hex(file));
  cold.remote.close();
  const warm = await opened({ cache: "auto" });
  failures.same("warm", await hex(await warm.remote.bytes()), await hex(file));
  const { bytesFromCache, cacheError } = warm.remote.stats;
  const isCached = bytesFromCache > 2_000_000 && warm.server.sent() < 200_000;
  failures.same("from the cache, or the reason", isCached || typeof cacheError === "string", true);
  await clearCache();
  return failures;
}
