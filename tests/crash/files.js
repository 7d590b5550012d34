// Models of several files that were chosen together: their order does not matter, and the error names files that are
// missing or do not belong to the model.
import { Faults, open, outcome, safetensors } from "./common.js";

const inFolder = (file, path) => Object.defineProperty(
  new File([file], file.name), "webkitRelativePath", { value: path },
);

// A SafeTensors model in three shards with its index.
function shards() {
  const shard = (at) => {
    const header = new TextEncoder().encode(
      JSON.stringify({ [`t${at}`]: { dtype: "U8", shape: [8], data_offsets: [0, 8] } }),
    );
    const file = new Uint8Array(8 + header.length + 8).fill(at, 8 + header.length);
    new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
    file.set(header, 8);
    return new File([file], `model-0000${at}-of-00003.safetensors`);
  };
  const files = [1, 2, 3].map(shard);
  const weight_map = Object.fromEntries(files.map((file, at) => [`t${at + 1}`, file.name]));
  return [new File([JSON.stringify({ metadata: {}, weight_map })], "model.safetensors.index.json"), ...files];
}

const list = (files) => {
  const transfer = new DataTransfer();
  for (const file of files) transfer.items.add(file);
  return transfer.files;
};

const count = async (files, options) => {
  const loader = await open(files, options);
  let tensors = 0;
  for await (const { name, data } of loader.tensors()) tensors += name === `t${data[0]}`;
  loader.close();
  return tensors;
};

export async function chosen() {
  const faults = new Faults();
  const [manifest, one, two, three] = shards();
  for (const inWorker of [false, true]) {
    for (const files of [[manifest, one, two, three], [three, one, manifest, two], [one, two, three, manifest]]) {
      faults.same("any order", await count(files, { inWorker }), 3);
      faults.same("a FileList", await count(list(files), { inWorker }), 3);
    }
    const refused = async (what, files, ...named) => faults.expect(
      what, await outcome(open(files, { inWorker })), ...named,
    );
    await refused("two are missing", [one, manifest], "NOT_FOUND", two.name, three.name);
    await refused("only the manifest", [manifest], "NOT_FOUND", one.name, two.name, three.name);
    const stranger = new File([safetensors(1, 8)], "stranger.safetensors");
    await refused(
      "one does not belong", [one, stranger, two, manifest, three], "INVALID_ARGUMENT", "stranger.safetensors",
    );
    const readme = new File(["# A model"], "README.md");
    await refused("a README picked for itself", [one, readme, two, manifest, three], "INVALID_ARGUMENT", "README.md");
    await refused("no manifest", [three, one, two], "INVALID_ARGUMENT", one.name, "index.json");
    await refused(
      "two of one name", [manifest, one, two, three, new File([stranger], one.name)], "INVALID_ARGUMENT", one.name,
    );
    await refused("no file", [], "INVALID_ARGUMENT");
    await refused("an empty FileList", list([]), "INVALID_ARGUMENT");
    await refused("no model", [readme, new File(["notes on the model"], "notes.txt")], "UNSUPPORTED");

    const folder = (name, files) => files.map((file) => inFolder(file, `${name}/${file.name}`));
    const model = folder("top/model", [manifest, one, two, three]);
    const lines = new File(['{"a":1}\n{"b":2}\n'], "notes.jsonl");
    const others = folder(
      "top", [readme, new File([`{"model_type":"bert"}`], "config.json"), new File([], ".gitkeep"), lines],
    );
    faults.same("a folder", await count([...model.toReversed(), ...others], { inWorker }), 3);
    const damaged = folder("top", [new File([`{"weight_map": {`], manifest.name), one]);
    await refused("a manifest that is damaged, and one shard", damaged, "INVALID_ARGUMENT", manifest.name);
    const old = folder("top/old", [new File([stranger], one.name)]);
    await refused("two of one name in two folders", [...old, ...model], "INVALID_ARGUMENT", `top/old/${one.name}`);
    await refused(
      "another folder's shard", [...old, ...model.filter((file) => file.name !== one.name)], "NOT_FOUND", one.name,
      "top/old",
    );
  }
  return faults;
}

// Models of every format with several files, with the shards first.
export async function fixtures(models) {
  const faults = new Faults();
  for (const paths of models) {
    const fetched = await Promise.all(
      paths.map(async (path) => new File([await (await fetch(path)).arrayBuffer()], path.split("/").at(-1))),
    );
    const whole = await open(paths[0]);
    const expected = (await whole.loadIndex()).length;
    whole.close();
    for (const files of [fetched, fetched.toReversed()]) {
      const loader = await open(files);
      faults.same(paths[0], (await loader.loadIndex()).length, expected);
      loader.close();
    }
    const missing = fetched.slice(0, -1);
    if (fetched.length > 2) faults.expect(
      `${paths[0]} without its last`, await outcome(open(missing)), "NOT_FOUND", fetched.at(-1).name,
    );
  }
  return faults;
}
