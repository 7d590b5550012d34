import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { explainFile, fetchFile } from "./file_fetch.js";

let folder;
let url;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "file-fetch-"));
  const path = join(folder, "m.bin");
  await writeFile(path, "weights");
  url = pathToFileURL(path).href;
});
after(() => rm(folder, { recursive: true }));

test("a whole file is answered with its length", async () => {
  const response = await fetchFile(url);
  assert.deepEqual([response.status, response.headers.get("Content-Length")], [200, "7"]);
  assert.equal(await response.text(), "weights");
});

test("a range is answered as a server does", async () => {
  const response = await fetchFile(url, { headers: { Range: "bytes=2-4" } });
  assert.deepEqual([response.status, response.headers.get("Content-Range")], [206, "bytes 2-4/7"]);
  assert.equal(await response.text(), "igh");
  const end = await fetchFile(url, { headers: { Range: "bytes=5-99" } });
  assert.equal(await end.text(), "ts");
  assert.equal((await fetchFile(url, { headers: { Range: "bytes=7-9" } })).status, 416);
});

test("a file that does not exist, and a folder, are explained", async () => {
  const missing = `${url}2`;
  const { status } = await fetchFile(missing);
  const explained = explainFile({ code: "HTTP", message: "", url: missing, status });
  assert.equal(explained.code, "NOT_FOUND");
  assert.match(explained.message, /There is no file at the path .*m\.bin2/);
  const ofFolder = pathToFileURL(folder).href;
  const response = await fetchFile(ofFolder);
  assert.equal(explainFile({ code: "HTTP", message: "", url: ofFolder, status: response.status }).code, "IO");
});

test("errors of servers stay as they are", () => {
  const fields = { code: "HTTP", message: "no", url: "https://a.test/", status: 404 };
  assert.equal(explainFile(fields), fields);
});

test("an aborted request rejects with the reason", async () => {
  const reason = new Error("left");
  await assert.rejects(fetchFile(url, { signal: AbortSignal.abort(reason) }), reason);
});
