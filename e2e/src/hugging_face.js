// Stands in for Hugging Face: two repositories, whose files are those of the demo.
(() => {
  const ordinary = globalThis.fetch;
  const file = (path) => ({ type: "file", path, size: 90868376 });
  const listings = {
    "owner/one": ["README.md", "model.safetensors", "onnx/model.onnx", "pytorch_model.bin"].map(file),
    "owner/many": ["small.safetensors", "large.safetensors"].map(file),
  };
  globalThis.fetch = (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input, location.href);
    if (url.hostname !== "huggingface.co") return ordinary(input, init);
    const repository = /^\/api\/models\/(.+)\/tree\/main$/.exec(url.pathname)?.[1];
    if (repository !== undefined) {
      const listing = listings[repository];
      return Promise.resolve(listing ? Response.json(listing) : new Response("", { status: 401 }));
    }
    const isModel = /^\/owner\/(one|many)\/resolve\/(main|v1)\/(\w+)\.safetensors$/.test(url.pathname);
    return ordinary(`/models/${isModel ? "all-MiniLM-L6-v2" : "missing"}.safetensors`, init);
  };
})();
