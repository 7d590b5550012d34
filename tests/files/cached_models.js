// `cachedModels`, and the other calls of the cache for models of several files.
import { Failures, clearCache, openFile } from "./common.js";

const { StreamingLoader, cachedBytes, cachedModels, deleteCached, listCached } = await import("/pkg/weightstream.js");

const SHARDED = "/fixtures/safetensors/sharded/model.safetensors.index.json";
const SPLIT = "/fixtures/gguf/split/model-00002-of-00003.gguf";
const GRAPH = "/fixtures/onnx/external/model.onnx";
const PLAIN = "/fixtures/gguf/plain.gguf";
const FILE = "/fixtures/INDEX.json";

const nameOf = ({ url }) => url.split("/").at(-1);
const cachedNames = async () => (await listCached()).map(nameOf).sort();
const shards = [1, 2, 3].map((number) => `model-0000${number}-of-00003.safetensors`);
const parts = [1, 2, 3].map((number) => `model-0000${number}-of-00003.gguf`);

async function load(url, options) {
  const loader = await StreamingLoader.open(url, options);
  for await (const _ of loader.tensors());
  loader.close();
  await cachedBytes(); // resolves after all earlier writes
  return loader.stats.cacheError;
}

export async function groupsFilesByModel() {
  const failures = new Failures();
  await clearCache();
  const cacheErrors = [];
  for (const url of [SHARDED, SPLIT, GRAPH, PLAIN]) cacheErrors.push(await load(url));
  await load(SHARDED, { headers: { "X-Key": "1" } });
  await (await openFile(FILE)).arrayBuffer();
  failures.same("all are cached", cacheErrors, [undefined, undefined, undefined, undefined]);
  const before = await cachedModels();
  await new Promise((resolve) => setTimeout(resolve, 20));
  const models = await cachedModels();
  failures.same("a listed file does not count as used", models, before);
  const [sharded, split, graph, plain, file] = [SHARDED, parts[0], GRAPH, PLAIN, FILE]
    .map((url) => models.find((model) => model.url.endsWith(url)));
  failures.same("no other model", models.length, 5);
  failures.same("shards", [...new Set(sharded.files.map(nameOf))], ["model.safetensors.index.json", ...shards]);
  failures.same("also with other credentials", sharded.files.length, 8);
  failures.same("parts", split.files.map(nameOf), parts);
  failures.same("a graph", graph.files.map(nameOf)[0], "model.onnx");
  failures.same("and its data", graph.files.length > 1, true);
  failures.same("one file", plain.files.map(nameOf), ["plain.gguf"]);
  failures.same("another file", file.files.map(nameOf), ["INDEX.json"]);
  const length = async (url) => (await (await fetch(url)).arrayBuffer()).byteLength;
  failures.same("the length of one file", plain.byteLength, await length(PLAIN));
  const lengths = await Promise.all(parts.map((part) => length(`/fixtures/gguf/split/${part}`)));
  failures.same("the length of all", split.byteLength, lengths.reduce((sum, bytes) => sum + bytes));
  failures.same("all bytes", models.reduce((sum, { cachedBytes }) => sum + cachedBytes, 0), await cachedBytes());
  const listed = await listCached();
  failures.same("every file once", listed.length, models.reduce((sum, { files }) => sum + files.length, 0));
  const changes = listed.filter((file, at) => file.model !== listed[at - 1]?.model).length;
  failures.same("files of a model are adjacent", changes, models.length);
  return failures;
}

export async function deletesModels() {
  const failures = new Failures();
  await clearCache();
  for (const url of [SHARDED, SPLIT, PLAIN]) await load(url);
  await load(SHARDED, { headers: { "X-Key": "1" } });
  await deleteCached(`${SHARDED}#part`);
  failures.same("by the opened URL", await cachedNames(), [...parts, "plain.gguf"]);
  await deleteCached(SPLIT);
  failures.same("one file alone", await cachedNames(), [parts[0], parts[2], "plain.gguf"]);
  const [split] = (await cachedModels()).filter(({ files }) => files.length === 2);
  failures.same("the length while a file is missing", split.byteLength, undefined);
  await deleteCached(split);
  failures.same("a listed model", await cachedNames(), ["plain.gguf"]);
  const [file] = await listCached();
  await deleteCached({ ...file, url: "unknown" });
  await deleteCached("/nothing");
  failures.same("an unknown URL", (await listCached()).length, 1);
  await clearCache();
  failures.same("none", await cachedModels(), []);
  return failures;
}

// The loader writes the URLs of the other parts with escapes.
export async function partsWithOtherSpellings() {
  const failures = new Failures();
  await clearCache();
  const own = (url, init) => fetch(String(url).replace(/a(\+|%2B)b-/, "model-"), init);
  await load("/fixtures/gguf/split/a+b-00001-of-00003.gguf", { fetch: own });
  const [model, ...others] = await cachedModels();
  failures.same("one model of three files", [others.length, model.files.length, model.byteLength > 0], [0, 3, true]);
  failures.same("the URL that was opened", nameOf(model), "a+b-00001-of-00003.gguf");
  await deleteCached("/fixtures/gguf/split/a+b-00001-of-00003.gguf");
  failures.same("all are deleted", await listCached(), []);
  return failures;
}
