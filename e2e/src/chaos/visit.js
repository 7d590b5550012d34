// One visit of a page: loads a model with random calls and returns the outcome.
(async () => {
  const ws = await import("/pkg/weightstream.js");
  const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const visit = async (url, options, calls) => {
    const report = { tensors: [], files: [], errors: [], aborted: 0, bytesFromCache: 0 };
    const attempt = async (work) => {
      try {
        return await work();
      } catch (error) {
        if (error.name === "TimeoutError") report.aborted++;
        else report.errors.push([String(error.code ?? ""), String(error)]);
      }
    };
    // Loads a tensor while another loader's iteration is paused. Closing that loader must end its iteration.
    const loadBesidePaused = async (loader, name, signal) => {
      const other = await ws.StreamingLoader.open(url, { ...options, signal });
      const paused = other.tensors();
      try {
        await paused.next();
        return await loader.loadTensor(name, { signal });
      } finally {
        other.close();
        const end = await paused.next().catch((error) => error);
        if (end.code !== "CLOSED" && !end.done) report.errors.push(["WRONG", `closed while paused: ${end}`]);
      }
    };
    // Detaches the caller's buffer while a tensor is loaded into it.
    const loadIntoDetached = async (loader, info, signal) => {
      if (!info?.byteLength || info.components.length !== 1) return;
      const into = new ArrayBuffer(info.byteLength);
      const loading = loader.loadTensor(info.name, { into, signal });
      loading.catch(() => {}); // it is awaited below
      await new Promise((resolve) => setTimeout(resolve, info.byteLength % 7));
      structuredClone(into, { transfer: [into] });
      await loading.catch((error) => {
        if (error.code !== "INVALID_ARGUMENT") throw error;
      });
    };
    // Reads ranges of an open file, by turns as bytes and from its Blob.
    const readFile = async (name, ranges, signal) => {
      const { retry } = options;
      const file = await ws.openFile(new URL(name, url).href, { ...(retry && { retry }), signal });
      const reads = [];
      report.files.push({ name, reads });
      try {
        for (const [number, [start, end]] of ranges.entries()) {
          const asBlob = async () => (await file.blob()).slice(start, end).arrayBuffer();
          const bytes = number % 2 ? await asBlob() : await file.bytes(start, end);
          const sha256 = hex(await crypto.subtle.digest("SHA-256", bytes));
          reads.push({ start, end, length: bytes.byteLength, sha256 });
        }
      } finally {
        file.close();
      }
    };
    const loader = await attempt(() => ws.StreamingLoader.open(url, options));
    if (!loader) return report;
    window.received = () => loader.stats.bytesReceived;
    const index = (await attempt(() => loader.loadIndex())) ?? [];
    const shards = new Map(index.map(({ name, shard }) => [name, shard]));
    const take = async ({ name, data }, rows) => {
      const sha256 = hex(await crypto.subtle.digest("SHA-256", data));
      report.tensors.push({ name, rows, shard: shards.get(name), sha256 });
    };
    const takeAll = async (from, options) => {
      for await (const tensor of from.tensors(options)) await take(tensor);
    };
    for (const call of calls) {
      const { name, names, rows, prefetch, verify, together, besidePaused, file, ranges, abortAfter } = call;
      const signal = abortAfter === undefined ? undefined : AbortSignal.timeout(abortAfter);
      await attempt(async () => {
        if (verify) return loader.verify({ signal });
        if (together) {
          return Promise.all([takeAll(loader, { signal }), takeAll(loader, { signal }), loader.verify({ signal })]);
        }
        if (besidePaused) return take(await loadBesidePaused(loader, besidePaused, signal));
        if (file) return readFile(file, ranges, signal);
        if (name && !rows) await loadIntoDetached(loader, index.find((info) => info.name === name), signal);
        if (name) return take(await loader.loadTensor(name, { rows, signal }), rows);
        if (prefetch) {
          loader.prefetch(prefetch);
          for (const name of prefetch.toReversed()) await take(await loader.loadTensor(name, { signal }));
          return;
        }
        await takeAll(loader, { names, signal });
      });
    }
    report.bytesFromCache = loader.stats.bytesFromCache;
    const received = loader.stats.bytesReceived;
    window.received = () => received;
    loader.close();
    await ws.listCached(); // resolves after all earlier writes to the cache
    return report;
  };
  const hanging = new Promise((_, reject) => setTimeout(() => reject(Error("the load hangs")), 100_000));
  Object.assign(window, ws, { visit: (...visited) => Promise.race([visit(...visited), hanging]), received: () => 0 });
})()
