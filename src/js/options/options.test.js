import assert from "node:assert/strict";
import { test } from "node:test";
import * as options from "./options.js";

const refuses = (call, message) => assert.throws(call, { code: "INVALID_ARGUMENT", message });

test("an unknown option is an error that suggests a known one", () => {
  refuses(() => options.openOptions({ maxmemory: 1 }), /no option `maxmemory`: did you mean `maxMemory`\?/);
  refuses(() => options.openOptions({ retry: { attempt: 1 } }), /no option `retry\.attempt`/);
  refuses(() => options.callOptions({ limit: 1 }), /no option `limit`: this call has `signal`/);
});

test("an option that is undefined is like one that is absent", () => {
  assert.deepEqual(options.openOptions({ cache: undefined, other: undefined }), {});
  assert.deepEqual(options.openOptions(undefined), {});
});

test("options must be an object", () => {
  for (const given of ["a", 1, null, [], new Map()]) refuses(() => options.openOptions(given), /must be an object/);
});

test("numbers have limits", () => {
  assert.deepEqual(options.openOptions({ concurrency: 16, workers: 0 }), { concurrency: 16, workers: 0 });
  const one = { source: "a", scale: -0.5 };
  assert.deepEqual(options.openOptions({ adapters: [one] }).adapters, [one]);
  for (const adapters of ["a", {}, [{}], [{ source: "a", scale: NaN }], [{ source: "a", scales: 1 }]]) {
    refuses(() => options.openOptions({ adapters }), /adapters/);
  }
  for (const concurrency of [0, 17, 1.5, NaN, "4"]) refuses(() => options.openOptions({ concurrency }), /concurrency/);
});

test("mirrors are http(s) URLs", () => {
  const urls = ["https://a.test/m", new URL("http://b.test/m?x=1")];
  for (const mirrors of [urls, new Set(urls)]) {
    assert.deepEqual(options.openOptions({ mirrors }).mirrors, ["https://a.test/m", "http://b.test/m?x=1"]);
    assert.deepEqual(options.fileOptions({ mirrors }).mirrors, ["https://a.test/m", "http://b.test/m?x=1"]);
  }
  refuses(() => options.openOptions({ mirrors: "https://a.test/m" }), /`mirrors` is .*an array/);
  refuses(() => options.openOptions({ mirrors: ["https://a.test/m", 7] }), /mirrors\[1\]/);
  refuses(() => options.openOptions({ mirrors: ["hf:owner/name"] }), /http\(s\) URL/);
  refuses(() => options.filesOptions({ mirrors: urls }), /no option `mirrors`/);
});

test("headers are everything that fetch accepts, but not Range", () => {
  const pairs = [["a", "1"]];
  for (const headers of [{ A: "1" }, [["A", "1"]], new Map([["A", "1"]]), new Headers({ A: "1" })]) {
    assert.deepEqual(options.openOptions({ headers }).headers, pairs);
  }
  refuses(() => options.openOptions({ headers: { range: "bytes=0-1" } }), /contains Range/);
  refuses(() => options.openOptions({ headers: { "a b": "1" } }), /not accepted by fetch/);
});

test("a null signal is no signal", () => {
  assert.equal(options.callOptions({ signal: null }).signal, undefined);
  refuses(() => options.callOptions({ signal: {} }), /must be an AbortSignal/);
});

test("a checked cache of a folder or a storage bucket passes a second check", () => {
  const folder = { kind: "directory", getDirectoryHandle() {} };
  for (const given of [folder, { storageBucket: "whisper-v3" }]) {
    const { cache } = options.openOptions({ cache: given });
    assert.notEqual(cache, given);
    assert.equal(options.fileOptions({ cache }).cache, cache);
  }
});

test("a cache is a name, or an object with the methods of one", () => {
  const own = { get() {}, set() {}, delete() {}, keys() {} };
  assert.equal(options.openOptions({ cache: own }).cache, own);
  const buckets = ["Upper", "", 7].map((storageBucket) => ({ storageBucket }));
  for (const cache of [...buckets, { storageBucket: "a", quota: 1 }, {}, { kind: "file" }]) {
    refuses(() => options.openOptions({ cache }), /storageBucket/);
  }
  refuses(() => options.openOptions({ cache: "op" }), /did you mean `opfs`/);
  refuses(() => options.openOptions({ cache: { get() {} } }), /get, set, delete and keys/);
});

test("names are any iterable of strings, but no string", () => {
  assert.deepEqual(options.names(new Set(["a", "b"])), ["a", "b"]);
  refuses(() => options.names("ab"), /must be an array/);
  refuses(() => options.names(["a", 1]), /contains 1/);
  refuses(() => options.names([undefined]), /contains undefined/);
});

test("rows are a pair in order", () => {
  assert.deepEqual(options.tensorOptions({ rows: [2, 5] }).rows, [2, 5]);
  for (const rows of [[5, 2], [1], [0, 1, 2], [-1, 2], [0.5, 1], "12"]) {
    refuses(() => options.tensorOptions({ rows }), /a pair of row numbers/);
  }
});

test("into is a view of all bytes, and its class is known", () => {
  const floats = new Float32Array([1, 2, 3]).subarray(1);
  const { into, intoArray } = options.tensorOptions({ into: floats });
  assert.deepEqual([into.byteOffset, into.byteLength, intoArray], [4, 8, "Float32Array"]);
  refuses(() => options.tensorOptions({ into: [1, 2] }), /a view of one/);
  const buffer = new ArrayBuffer(4);
  structuredClone(buffer, { transfer: [buffer] });
  refuses(() => options.tensorOptions({ into: buffer }), /is detached/);
});

test("origins are origins, and no path", () => {
  const { origins } = options.filesOptions({ origins: ["https://a.test/", new URL("http://b.test:81")] });
  assert.deepEqual(origins, ["https://a.test", "http://b.test:81"]);
  refuses(() => options.filesOptions({ origins: ["https://a.test/models/"] }), /must contain origins/);
  refuses(() => options.filesOptions({ origins: "https://a.test" }), /must be an array/);
});

test("options that exclude each other are refused", () => {
  refuses(() => options.tensorsOptions({ order: "given" }), /requires `names`/);
  refuses(() => options.tensorsOptions({ usage: 1 }), /requires `device`/);
  refuses(() => options.tensorsOptions(["a"]), /tensors\(\{ names/);
  refuses(() => options.initOptions({ worker() {}, workerUrl: "https://a.test/w.js" }), /only one of/);
});

test("init takes the module itself", () => {
  const module = new URL("https://a.test/m.wasm");
  assert.equal(options.initOptions(module).module, module);
  assert.equal(options.initOptions("/m.wasm").module, "/m.wasm");
  assert.equal(options.initOptions({ workerUrl: "https://a.test/w.js" }).workerUrl, "https://a.test/w.js");
});

test("digests have a known algorithm", () => {
  assert.equal(options.fileOptions({ digest: "sha256:00ff" }).digest, "sha256:00ff");
  refuses(() => options.fileOptions({ digest: "md5:00ff" }), /a digest such as/);
  refuses(() => options.openOptions({ digests: { files: { a: 1 } } }), /digests\.files\["a"\]/);
});
