// Flips a bit in the middle of each cached file, and of one chunk in IndexedDB.
async () => {
  // The worker of the page before closes its handles a little later.
  const writableOf = async (handle, attempts = 50) => {
    try {
      return await handle.createWritable({ keepExistingData: true });
    } catch (error) {
      if (error.name !== "NoModificationAllowedError" || attempts === 0) throw error;
    }
    await new Promise((resolve) => { setTimeout(resolve, 100); });
    return writableOf(handle, attempts - 1);
  };
  const root = await navigator.storage.getDirectory();
  const folder = await root.getDirectoryHandle("weightstream", { create: true });
  for await (const handle of folder.values()) {
    if (handle.name === "contents") continue;
    const file = await handle.getFile(), at = file.size >> 1;
    const byte = new Uint8Array(await file.slice(at, at + 1).arrayBuffer())[0];
    const writable = await writableOf(handle);
    await writable.write({ type: "write", position: at, data: new Uint8Array([byte ^ 16]) });
    await writable.close();
  }
  if (!(await indexedDB.databases()).length) return;
  const request = indexedDB.open("weightstream");
  await new Promise((resolve) => { request.onsuccess = resolve; });
  const transaction = request.result.transaction("kept", "readwrite"), kept = transaction.objectStore("kept");
  kept.getAllKeys().onsuccess = ({ target }) => {
    const pieces = target.result.filter((key) => key.split(".").length === 6);
    const start = (key) => parseInt(key.split(".")[3], 16);
    const key = pieces.sort((a, b) => start(a) - start(b))[pieces.length >> 1];
    kept.get(key).onsuccess = ({ target: { result } }) => {
      result[result.length >> 1] ^= 16;
      kept.put(result, key);
    };
  };
  await new Promise((resolve) => { transaction.oncomplete = resolve; });
  request.result.close();
}
