// Sources other than URLs: handles of files and folders, dropped items, FileLists, Responses.
import { Failures, LoadError, openFile, serverOf, tick } from "./common.js";
import { safetensors } from "./safetensors.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");

const MODEL = safetensors({ a: 100_000, b: 200_000, c: 300_000 });
const SHARDED = ["model.safetensors.index.json", ...[1, 2, 3].map((n) => `model-0000${n}-of-00003.safetensors`)];

const namesOf = async (loader) => (await loader.loadIndex()).map(({ name }) => name).join();
const fixture = async (path) => (await fetch(`/fixtures/${path}`)).arrayBuffer();
const shardOf = async (name) => new File([await fixture(`safetensors/sharded/${name}`)], name);
const shards = () => Promise.all(SHARDED.map(shardOf));

// A new folder with files by path: in the origin private file system, or as objects with the same methods in
// WebKitGTK, whose automated windows have no such file system.
async function folderOf(files) {
  const root = (await navigator.storage?.getDirectory().catch(() => undefined)) ?? folderInMemory("");
  const name = `sources ${crypto.randomUUID()}`;
  const folder = await root.getDirectoryHandle(name, { create: true });
  for (const [path, content] of Object.entries(files)) {
    const names = path.split("/");
    let parent = folder;
    for (const part of names.slice(0, -1)) parent = await parent.getDirectoryHandle(part, { create: true });
    const handle = await parent.getFileHandle(names.at(-1), { create: true });
    const writable = await handle.createWritable();
    await writable.write(content);
    await writable.close();
  }
  return { folder, remove: () => root.removeEntry(name, { recursive: true }) };
}

function folderInMemory(name) {
  const entries = new Map();
  let isRemoved = false;
  const check = () => {
    if (isRemoved) throw new DOMException("removed", "NotFoundError");
  };
  const entry = (name, create) => entries.get(name) ?? entries.set(name, create(name)).get(name);
  return {
    kind: "directory",
    name,
    getDirectoryHandle: async (name) => entry(name, folderInMemory),
    getFileHandle: async (name) => entry(name, fileInMemory),
    removeEntry: async (name) => entries.get(name).remove(),
    remove: () => {
      isRemoved = true;
      for (const entry of entries.values()) entry.remove();
    },
    async *values() {
      check();
      yield* entries.values();
    },
  };
}

function fileInMemory(name) {
  let file = new File([], name);
  return {
    kind: "file",
    name,
    remove: () => (file = undefined),
    createWritable: async () => ({
      write: async (content) => (file = new File([content], name)),
      close: async () => {},
    }),
    getFile: async () => {
      if (!file) throw new DOMException("removed", "NotFoundError");
      return file;
    },
  };
}

export async function handles() {
  const failures = new Failures();
  const files = Object.fromEntries((await shards()).map((file) => [`parts/${file.name}`, file]));
  const { folder, remove } = await folderOf({
    ...files, "README.md": "# A model", "tokenizer/tokenizer.json": "{}", ".git/lfs/copy.safetensors": MODEL,
    "parts/.hidden.safetensors": MODEL,
  });
  const parts = await folder.getDirectoryHandle("parts");
  const first = await parts.getFileHandle(SHARDED[1]);
  const expected = await StreamingLoader.open("/fixtures/safetensors/sharded/model.safetensors.index.json");
  const names = await namesOf(expected);
  for (const options of [{}, { inWorker: true }]) {
    const what = JSON.stringify(options);
    const whole = await StreamingLoader.open(folder, options);
    failures.same(`a folder ${what}`, await namesOf(whole), names);
    const name = names.split(",").at(-1);
    const [{ data }, wanted] = await Promise.all([whole.loadTensor(name), expected.loadTensor(name)]);
    failures.same(`a tensor ${what}`, Array.from(data, String), Array.from(wanted.data, String));
    const list = await Promise.all(SHARDED.map((name) => parts.getFileHandle(name)));
    failures.same(`handles ${what}`, await namesOf(await StreamingLoader.open(list, options)), names);
    const mixed = [list[0], await list[1].getFile(), ...list.slice(2)];
    failures.same(`handles and files ${what}`, await namesOf(await StreamingLoader.open(mixed, options)), names);
    const file = await StreamingLoader.open(first, options);
    failures.same(`a file ${what}`, names.includes(await namesOf(file)), true);
    whole.close();
    file.close();
  }
  const opened = await openFile(first);
  failures.same("openFile", (await opened.bytes()).length, (await first.getFile()).size);
  await failures.rejects("openFile of a folder", openFile(folder), "INVALID_ARGUMENT", "one file");
  await remove();
  const { folder: empty, remove: removeEmpty } = await folderOf({});
  await failures.rejects("an empty folder", StreamingLoader.open(empty), "INVALID_ARGUMENT", "contains no files");
  await removeEmpty();
  return failures;
}

export async function handlesThatCannotBeRead() {
  const failures = new Failures();
  const { folder, remove } = await folderOf({ "m.safetensors": MODEL });
  const handle = await folder.getFileHandle("m.safetensors");
  await remove();
  await failures.rejects("a removed file", StreamingLoader.open(handle), "NOT_FOUND", '"m.safetensors" cannot be read');
  await failures.rejects("a removed folder", StreamingLoader.open(folder), "cannot be read");
  const getFile = () => Promise.reject(new DOMException("no", "NotAllowedError"));
  const denied = { kind: "file", name: "m.gguf", getFile };
  await failures.rejects("without permission", StreamingLoader.open(denied), "IO", "requestPermission()");
  const many = {
    kind: "directory", name: "home", async *values() {
      for (;;) yield { kind: "file", name: "x", getFile: async () => new File([], "x") };
    },
  };
  await failures.rejects("too many files", StreamingLoader.open(many), "LIMIT", '"home" has more than 10000 files');
  return failures;
}

export async function droppedItems() {
  const failures = new Failures();
  const drop = (files, text) => {
    const transfer = new DataTransfer();
    files.forEach((file) => transfer.items.add(file));
    if (text) transfer.items.add(text, "text/plain");
    return transfer;
  };
  const files = await shards();
  const names = await namesOf(await StreamingLoader.open(files));
  const model = new File([MODEL], "m.safetensors");
  for (const options of [{}, { inWorker: true }]) {
    const what = JSON.stringify(options);
    failures.same(`a FileList ${what}`, await namesOf(await StreamingLoader.open(drop(files).files, options)), names);
    const all = drop(files, "some text");
    const opening = StreamingLoader.open(all.items, options);
    all.clearData(); // as a browser clears the items after the event
    failures.same(`items ${what}`, await namesOf(await opening), names);
    const one = drop([model]);
    const openingOne = StreamingLoader.open(one.items[0], options);
    one.items.clear();
    failures.same(`an item ${what}`, await namesOf(await openingOne), "a,b,c");
  }
  failures.same("openFile", (await openFile(drop([model]).items[0])).byteLength, MODEL.length);
  const cleared = drop([model]);
  cleared.items.clear();
  const open = (source) => StreamingLoader.open(source);
  await failures.rejects("cleared items", open(cleared.items), "INVALID_ARGUMENT", "before the first await");
  await failures.rejects("only text", open(drop([], "text").items), "INVALID_ARGUMENT", "no file");
  await failures.rejects("a text", open(drop([], "text").items[0]), "INVALID_ARGUMENT", "dropped text");
  return failures;
}

// A folder as Firefox and WebKit have it: an entry that returns its files in batches.
export async function droppedFolders() {
  const failures = new Failures();
  const files = await shards();
  const fileEntry = (file) => ({ isFile: true, name: file.name, file: (resolve) => resolve(file) });
  const folderEntry = (name, entries) => ({
    isDirectory: true, name, createReader: () => {
      const batches = [entries.slice(0, 1), entries.slice(1), []];
      return { readEntries: (resolve) => setTimeout(resolve, 0, batches.shift()) };
    },
  });
  const readme = new File(["# Hello"], "README.md");
  const folder = folderEntry("model", [fileEntry(readme), folderEntry("parts", files.map(fileEntry))]);
  const item = { kind: "file", getAsFile: () => new File([], "model"), webkitGetAsEntry: () => folder };
  const names = await namesOf(await StreamingLoader.open(files));
  failures.same("an item", await namesOf(await StreamingLoader.open(item)), names);
  failures.same("items", await namesOf(await StreamingLoader.open([item])), names);
  const readEntries = (_, reject) => reject(new DOMException("no", "NotFoundError"));
  const broken = { ...folder, createReader: () => ({ readEntries }) };
  const brokenItem = { ...item, webkitGetAsEntry: () => broken };
  await failures.rejects("a removed folder", StreamingLoader.open(brokenItem), "NOT_FOUND", "model");
  return failures;
}

export async function responses() {
  const failures = new Failures();
  const server = serverOf(MODEL);
  const loader = await StreamingLoader.open(await server.fetch("/m.safetensors"));
  failures.same("the index", await namesOf(loader), "a,b,c");
  failures.same("its bytes", (await loader.loadTensor("a")).data.length, 100_000);
  const names = [];
  for await (const { name, data } of loader.tensors({ names: ["b", "c"] })) names.push([name, data.length]);
  failures.same("in file order", names, [["b", 200_000], ["c", 300_000]]);
  failures.same("one request", [server.requests.length, loader.stats.requests], [1, 1]);
  const again = loader.loadTensor("a");
  await failures.rejects("again", again, "UNSUPPORTED", "only once", "open the URL");
  failures.same("the error is the loader's", await again.catch((error) => error instanceof LoadError), true);
  loader.close();

  const real = await StreamingLoader.open(await fetch("/fixtures/safetensors/basic.safetensors"));
  failures.same("of the network", await namesOf(real) !== "", true);
  const manifest = await fetch("/fixtures/safetensors/sharded/model.safetensors.index.json");
  const sharded = await StreamingLoader.open(manifest);
  const expected = await StreamingLoader.open(manifest.url);
  failures.same("the files of a manifest", await namesOf(sharded), await namesOf(expected));
  const file = await openFile(await fetch("/fixtures/README.md"));
  failures.same("openFile", [file.url.endsWith("/fixtures/README.md"), (await file.text()).length > 100], [true, true]);
  const all = await openFile(new Response(MODEL));
  failures.same("without a URL", [all.url, (await all.bytes()).length], ["", MODEL.length]);
  await failures.rejects("read again", all.bytes(), "UNSUPPORTED", "only once");
  const empty = await openFile(new Response(null));
  failures.same("without a body", (await empty.bytes()).length, 0);
  return failures;
}

export async function responsesThatCannotBeRead() {
  const failures = new Failures();
  const open = (response, options) => StreamingLoader.open(response, options);
  const missing = await fetch("/fixtures/nothing.safetensors");
  await failures.rejects("404", open(missing), "HTTP", "(HTTP status 404)", "/fixtures/nothing.safetensors");
  failures.same("its status", await open(missing).catch(({ status, url }) => [status, url]), [404, missing.url]);
  await failures.rejects("503", openFile(new Response("", { status: 503 })), "HTTP", "503");
  const used = new Response(MODEL);
  await used.arrayBuffer();
  await failures.rejects("a used body", open(used), "INVALID_ARGUMENT", "already read");
  const locked = new Response(MODEL);
  locked.body.getReader();
  await failures.rejects("a locked body", open(locked), "INVALID_ARGUMENT", "locked");
  await failures.rejects("a range", open(new Response(MODEL, { status: 206 })), "INVALID_ARGUMENT", "without Range");
  await failures.rejects("opaque", open(await fetch("/fixtures/README.md", { mode: "no-cors" })), "UNSUPPORTED");
  await failures.rejects("an error", open(Response.error()), "INVALID_ARGUMENT", 'type "error"');
  await failures.rejects("in a worker", open(new Response(MODEL), { inWorker: true }), "INVALID_ARGUMENT", "inWorker");
  const cut = new ReadableStream({
    pull: (controller) => (controller.sent ? controller.error(new TypeError("cut off")) : send(controller)),
  });
  const send = (controller) => {
    controller.enqueue(MODEL.slice(0, 150_000));
    controller.sent = true;
  };
  const broken = await open(new Response(cut));
  await failures.rejects("a broken body", broken.loadTensor("c"), "NETWORK", "cut off", "Open its URL");
  return failures;
}

// The connection of a Response ends with its loader.
export async function closingCancelsTheResponse() {
  const failures = new Failures();
  let isCancelled = false;
  const endless = new ReadableStream({
    start: (controller) => controller.enqueue(MODEL.slice(0, 150_000)),
    cancel: () => void (isCancelled = true),
  });
  const loader = await StreamingLoader.open(new Response(endless));
  const pending = loader.loadTensor("c").catch(({ code }) => code);
  await tick();
  loader.close();
  failures.same("the pending call", await pending, "CLOSED");
  await tick();
  failures.same("the body is cancelled", isCancelled, true);
  return failures;
}
