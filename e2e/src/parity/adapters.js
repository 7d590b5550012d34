// Loads a model with an adapter in several ways. Returns the hashes of all tensors for each way.
async (model, adapter, config) => {
  const { StreamingLoader } = await import("/pkg/weightstream.js");
  const hash = async (data) => {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
    return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  };
  const blob = async (url) => new File([await (await fetch(url)).blob()], url.split("/").pop());
  const given = config ? await (await fetch(config)).json() : undefined;
  const sources = {
    url: [model, { source: adapter }],
    file: [await blob(model), { source: await blob(adapter), config: given }],
    worker: [model, { source: new URL(adapter, location.href) }, { inWorker: true, cache: "none" }],
  };
  const found = {};
  for (const [how, [source, one, more]] of Object.entries(sources)) {
    const loader = await StreamingLoader.open(source, { adapters: [one], ...more });
    const single = {}, streamed = {}, rows = {};
    for (const { name, shape, layout } of await loader.loadIndex()) {
      const tensor = await loader.loadTensor(name);
      if (tensor.layout !== "dense") throw new Error(`${name} is ${tensor.layout}`);
      single[name] = `${layout} ${tensor.dtype} ${await hash(tensor.data)}`;
      rows[name] = await hash((await loader.loadTensor(name, { rows: [shape[0] - 1, shape[0]] })).data);
    }
    for await (const { name, data } of loader.tensors({ as: "F32" })) streamed[name] = await hash(data);
    await loader.verify();
    const { workersError } = loader.stats;
    if (workersError) throw new Error(workersError);
    loader.close();
    found[how] = { single, streamed, rows };
  }
  const error = await StreamingLoader.open(model, { adapters: [{ source: model }] }).catch((error) => error);
  return { found, code: error.code };
}
