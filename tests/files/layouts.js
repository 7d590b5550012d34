// Quantized layouts in SafeTensors: their values are those of the packages that wrote the files, which are the tensors
// of reference.safetensors.
import { Failures, hex } from "./common.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");

const CASES = ["mlx_affine", "gptq", "awq", "bitsandbytes_4bit", "fp8_blocks", "compressed_pack", "hqq", "gpt_oss"];
const folder = (name) => `/fixtures/quantized/${name}`;
const bytesOf = ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength);

/** The values of the packages in F32, by tensor: as they state them, or widened. */
async function referenceOf(name) {
  const loader = await StreamingLoader.open(`${folder(name)}/reference.safetensors`, { cache: "none" });
  const values = new Map();
  for await (const { name, data } of loader.tensors({ as: "F32" })) {
    const [tensor, isF32] = name.split("|");
    if (isF32 || !values.has(tensor)) values.set(tensor, data);
  }
  loader.close();
  return values;
}

export async function valuesOfQuantizedLayouts() {
  const failures = new Failures();
  for (const [at, name] of CASES.entries()) {
    const expected = await referenceOf(name);
    const options = [{ workers: 0 }, { inWorker: true }, { workers: 2 }][at % 3];
    const loader = await StreamingLoader.open(`${folder(name)}/model.safetensors`, { cache: "none", ...options });
    const index = await loader.loadIndex();
    let count = 0;
    for await (const tensor of loader.tensors({ as: "F32" })) {
      const values = expected.get(tensor.name);
      if (!values) continue;
      const what = `${name} ${tensor.name}`;
      const info = index.find((info) => info.name === tensor.name);
      failures.same(`${what}: listed`, [info.layout, typeof info.quantization.method], ["quantized", "string"]);
      failures.same(`${what}: shape`, tensor.shape, info.shape);
      failures.same(what, await hex(bytesOf(tensor.data)), await hex(bytesOf(values)));
      count++;
    }
    failures.same(`${name}: all`, count, expected.size);
    const [first] = expected.keys();
    const { shape } = index.find((info) => info.name === first);
    const rowLength = expected.get(first).length / shape[0];
    const rows = [1, shape[0]];
    const part = await loader.loadTensor(first, { as: "F32", rows });
    failures.same(`${name}: rows`, await hex(bytesOf(part.data)),
      await hex(bytesOf(expected.get(first).subarray(rowLength))));
    const stored = await loader.loadTensor(first);
    failures.same(`${name}: parts`, [stored.layout, stored.data, stored.components.size > 1],
      ["quantized", undefined, true]);
    loader.close();
  }
  return failures;
}

export async function ambiguousLayoutsAndTheirConfig() {
  const failures = new Failures();
  const file = await (await fetch(`${folder("gptq")}/model.safetensors`)).blob();
  const config = await (await fetch(`${folder("gptq")}/config.json`)).json();
  const name = "layers.4.plain.weight";
  for (const inWorker of [false, true]) {
    const alone = await StreamingLoader.open(file, { cache: "none", inWorker });
    await failures.rejects("alone", alone.loadTensor(name, { as: "F32" }), "UNSUPPORTED", "gptq_v2");
    await failures.rejects("alone", alone.loadTensor(name, { as: "F32" }), "UNSUPPORTED", "config");
    alone.close();
    const given = await StreamingLoader.open(file, { cache: "none", inWorker, config });
    const { data } = await given.loadTensor(name, { as: "F32" });
    failures.same("given", await hex(bytesOf(data)), await hex(bytesOf((await referenceOf("gptq")).get(name))));
    given.close();
  }
  await failures.rejects("no object", StreamingLoader.open(file, { config: "{}" }), "INVALID_ARGUMENT", "config");
  const files = [new File([file], "model.safetensors"), new File([JSON.stringify(config)], "config.json")];
  const loader = await StreamingLoader.open(files, { cache: "none" });
  failures.same("beside", (await loader.loadTensor(name, { as: "F32" })).dtype, "F32");
  loader.close();
  return failures;
}

export async function aViewHasThePartsOfQuantizedTensors() {
  const failures = new Failures();
  const url = `${folder("awq")}/model.safetensors`;
  const loader = await StreamingLoader.open(url, { cache: "none" });
  const view = await StreamingLoader.open(await loader.toBlob(), { cache: "none" });
  const namesOf = async (of) => (await of.loadIndex()).map(({ name }) => name);
  failures.same("listed", await namesOf(view), await namesOf(loader));
  const values = async (of) => hex(bytesOf((await of.loadTensor("proj.weight", { as: "F32" })).data));
  failures.same("values", await values(view), await values(loader));
  view.close();
  loader.close();
  return failures;
}
