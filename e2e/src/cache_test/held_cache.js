// Adds functions to the page that hold the code of the cache back: it is requested, but does not arrive.
(() => {
  const ofBrowser = globalThis.fetch;
  const held = [];
  globalThis.fetch = (input, init) => {
    if (!String(input).includes("weightstream_cache")) return ofBrowser(input, init);
    return new Promise((resolve) => held.push(() => resolve(ofBrowser(input, init))));
  };
  /** @type {any} */
  let loader;
  Object.assign(globalThis, {
    /** Makes this visit the first one: other cases leave an empty folder and an empty database. */
    removeStorage: async () => {
      const root = await navigator.storage.getDirectory();
      await root.removeEntry("weightstream", { recursive: true }).catch(() => {}); // there is none
      await new Promise((resolve, reject) => {
        const deleting = indexedDB.deleteDatabase("weightstream");
        [deleting.onsuccess, deleting.onerror, deleting.onblocked] = [resolve, reject, reject];
      });
      return "removed";
    },
    /** Opens the model and loads a tensor. Tells whether the cache was requested before the tensor arrived. */
    firstTensor: async (url, name) => {
      loader = await globalThis.StreamingLoader.open(url);
      const { data } = await loader.loadTensor(name);
      const digest = await crypto.subtle.digest("SHA-256", data);
      const sha256 = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
      return JSON.stringify({ sha256, requests: held.length });
    },
    /** Lets the cache start, and waits until the model has that many bytes in it. */
    releaseCache: async (byteLength) => {
      globalThis.fetch = ofBrowser;
      for (const answer of held) answer();
      for (let waited = 0; waited < 20_000; waited += 50) {
        const files = await globalThis.listCached();
        const { cacheError } = loader.stats;
        if (files.some(({ cachedBytes }) => cachedBytes >= byteLength) || cacheError) return cacheError ?? "cached";
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      return "nothing is cached";
    },
  });
})()
