// The other files of a model: their URLs, and which of the files of a folder they are.
import { Failures } from "./common.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");

const INDEX = "model.safetensors.index.json";
const FOLDER = "/fixtures/safetensors/sharded/";
const namesOf = async (loader) => (await loader.loadIndex()).map(({ name }) => name).join();

// A `fetch` for files of any host: the requested URLs, and the answers of the test server.
function recorder() {
  const requested = new Set();
  const recorded = (url, init) => {
    requested.add(url);
    const [path] = url.split("?");
    return fetch(FOLDER + decodeURIComponent(path).split("/").at(-1), init);
  };
  return { requested, options: { fetch: recorded, cache: "none" } };
}

export async function queries() {
  const failures = new Failures();
  const expected = await namesOf(await StreamingLoader.open(FOLDER + INDEX));
  for (const folder of ["https://host.example/m/", "https://host.example/o/a%20b%2F"]) {
    for (const [partUrl, query] of [[undefined, "?sig=a%2Fb"], [false, ""], [() => undefined, "?sig=a%2Fb"]]) {
      const { requested, options } = recorder();
      const what = `${folder}, ${String(partUrl)}`;
      const loader = await StreamingLoader.open(`${folder}${INDEX}?sig=a%2Fb`, { ...options, partUrl });
      failures.same(what, await namesOf(loader), expected);
      const parts = [...requested].slice(1);
      const isWanted = (url) => url.startsWith(`${folder}model-0000`) && url.endsWith(`.safetensors${query}`);
      failures.same(`${what}: ${parts}`, parts.length > 0 && parts.every(isWanted), true);
      loader.close();
    }
  }
  return failures;
}

export async function mappedUrls() {
  const failures = new Failures();
  const open = (partUrl, options) =>
    StreamingLoader.open(`https://host.example/m/${INDEX}?k=1`, { ...options, partUrl });
  const { requested, options } = recorder();
  const calls = [];
  const partUrl = (path, url) => {
    calls.push(url === `https://host.example/m/${path}?k=1`);
    return `https://other.example/${path}?for=${path}`;
  };
  const loader = await open(partUrl, { ...options, headers: { Authorization: "Bearer s3cret" } });
  await loader.loadIndex();
  failures.same("arguments", calls.length > 0 && calls.every(Boolean), true);
  const isMapped = (url) => /^https:\/\/other\.example\/(.*)\?for=\1$/.test(url);
  failures.same("URLs", [...requested].slice(1).every(isMapped), true);
  loader.close();
  const relative = recorder();
  const second = await open((path) => `sub/${path}`, relative.options);
  await second.loadIndex();
  failures.same("relative", [...relative.requested].at(-1).startsWith("https://host.example/m/sub/model-"), true);
  second.close();
  const wanted = (shown) => [`\`partUrl\` returned ${shown} for the model's file "model-0000`];
  const thrown = open(() => { throw new Error("no"); }, recorder().options);
  await failures.rejects("an exception", thrown, "INVALID_ARGUMENT", "`partUrl` threw an exception");
  await failures.rejects("a number", open(() => 1, recorder().options), "INVALID_ARGUMENT", ...wanted("1"));
  const values = [[null, "null"], [new URL("https://a.example/"), "[object URL]"], ["http://", '"http://"']];
  for (const [value, shown] of values) {
    await failures.rejects(shown, open(() => value, recorder().options), "INVALID_ARGUMENT", ...wanted(shown));
  }
  await failures.rejects("true", open(true, recorder().options), "INVALID_ARGUMENT", "a function or false");
  await failures.rejects("inWorker", open(() => "x", { inWorker: true }), "INVALID_ARGUMENT", "`partUrl` function");
  return failures;
}

export async function unknownSchemes() {
  const failures = new Failures();
  const requested = [];
  const original = globalThis.fetch;
  globalThis.fetch = (url, init) => {
    if (!String(url).startsWith("http")) requested.push(`${url} ${new Headers(init.headers).get("Range") !== null}`);
    return original(url, init);
  };
  try {
    const partUrl = (path) => `file:///${path}`;
    const loader = await StreamingLoader.open(FOLDER + INDEX, { cache: "none", partUrl });
    const wanted = ["NETWORK: file:///model-0000", "`fetch` does not load this URL here", "the scheme `file`"];
    await failures.rejects("a part", loader.loadIndex(), ...wanted);
    loader.close();
    failures.same("whole files are requested, too", requested.some((request) => request.endsWith("false")), true);
    failures.same("requests that are tried again", requested.length - new Set(requested).size, 0);
  } finally {
    globalThis.fetch = original;
  }
  return failures;
}

export async function selectedFolders() {
  const failures = new Failures();
  const load = async (path) => new File([await (await fetch(path)).arrayBuffer()], path.split("/").at(-1));
  const other = await load("/fixtures/safetensors/basic.safetensors");
  const files = await Promise.all(
    [1, 2, 3].map((n) => `model-0000${n}-of-00003.safetensors`).concat(INDEX).map((name) => load(FOLDER + name)),
  );
  const at = (path, file) => Object.defineProperty(
    new File([file], path.split("/").at(-1)), "webkitRelativePath", { value: path },
  );
  const folder = [...files.map((file) => at(`top/${file.name}`, file)), at("top/consolidated.safetensors", other)];
  const loader = await StreamingLoader.open(folder);
  const expected = await StreamingLoader.open(FOLDER + INDEX);
  failures.same("the usual name", await namesOf(loader), await namesOf(expected));
  loader.close();
  const two = [at("top/a.safetensors", other), at("top/b.safetensors", other)];
  await failures.rejects("two models", StreamingLoader.open(two), "INVALID_ARGUMENT", "top/a.safetensors");
  return failures;
}
