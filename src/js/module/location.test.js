import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import * as location from "./location.js";

afterEach(() => location.setParts({}));

test("without parts of an entry point, the module and its parts are files beside the script", () => {
  assert.equal(String(location.moduleSource()), new URL("weightstream_main.wasm", import.meta.url).href);
  const names = location.deferredSources().map((url) => url.split("/").pop());
  const first = ["deferred", "cache", "extras", "manifests", "workers", "calls"]; // in the order of their numbers
  const parts = [...first, "databases", "containers", "quantization", "blake3", "cached", "mirrors"];
  assert.deepEqual(names, parts.map((part) => `weightstream_${part}.wasm`));
});

test("the module of an entry point has all parts", () => {
  location.setParts({ module: () => "module" });
  assert.equal(location.moduleSource(), "module");
  assert.deepEqual(location.deferredSources(), []);
  assert.deepEqual(location.laterSources(), []);
});

test("there are no workers without a platform for them", () => {
  assert.equal(location.hasWorkers(), false);
  assert.throws(() => location.newWorker(), /not available in this context/);
});

test("the worker that init was given comes before that of the entry point, which gets the given URL", () => {
  const urls = [];
  location.setParts({ worker: (url) => urls.push(url) });
  location.setWorkerOptions({ workerUrl: "https://a.test/w.js" });
  location.newWorker();
  assert.deepEqual(urls, ["https://a.test/w.js"]);
  const own = {};
  location.setWorkerOptions({ worker: () => own });
  location.setWorkerOptions({});
  assert.equal(location.newWorker(), own);
});

test("a source that the platform does not fetch is not cached", () => {
  const fetch = () => {};
  location.setParts({ fetchOf: (url) => (url.startsWith("file:") ? fetch : undefined) });
  assert.deepEqual(location.ownOptions("file:///m"), { fetch, cache: "none" });
  assert.equal(location.ownOptions("https://a.test/m"), undefined);
  assert.equal(location.ownOptions(new Blob([])), undefined);
});

test("the process is kept running while a call is pending, also if it fails", async () => {
  let held = 0;
  location.setParts({
    hold: () => {
      held++;
      return () => held--;
    },
  });
  await location.holding(async () => assert.equal(held, 1));
  await assert.rejects(location.holding(async () => { throw new Error("failed"); }));
  assert.equal(held, 0);
});
