// Adds the exports of the package to the page, and the functions `load` and `one`, which report what they loaded.
(async () => {
  const ws = await import("/pkg/weightstream.js");
  const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const sha256 = async ({ data }) => hex(await crypto.subtle.digest("SHA-256", data));
  const open = (url, options) => ws.StreamingLoader.open(url, {
    retry: { attempts: 1, baseDelay: 1 },
    onProgress: ({ loaded, fromCache }) => { window.loaded = loaded; window.fromCache = fromCache; },
    ...options,
  });
  const report = async (loader, tensors) => {
    await ws.cachedBytes(); // resolves after all earlier writes to the cache, which may report an error in the stats
    const stats = loader.stats;
    loader.close();
    await ws.cachedBytes();
    return JSON.stringify({ tensors, stats, fromCache: window.fromCache });
  };
  Object.assign(window, ws, {
    load: async (url, options) => {
      const loader = await open(url, options), tensors = {};
      for await (const tensor of loader.tensors()) tensors[tensor.name] = await sha256(tensor);
      return report(loader, tensors);
    },
    one: async (url, name, options) => {
      const loader = await open(url, options);
      return report(loader, { [name]: await sha256(await loader.loadTensor(name)) });
    },
  });
})()
