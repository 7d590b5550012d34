// `load` of page.js for a worker, where dynamic import is not available.
async (url) => {
  const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const loader = await ws.StreamingLoader.open(url, { retry: { attempts: 1, baseDelay: 1 } }), tensors = {};
  for await (const { name, data } of loader.tensors()) {
    tensors[name] = hex(await crypto.subtle.digest("SHA-256", data));
  }
  const { stats } = loader;
  loader.close();
  await ws.cachedBytes();
  return JSON.stringify({ tensors, stats, fromCache: false });
}
