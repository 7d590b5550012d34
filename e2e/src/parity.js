// Opens a file as a web app would. Returns its metadata and index as JSON, and the hashes of all components of all
// tensors, from `loadTensor` and from `tensors()`. If the file is rejected, returns the error code.
async (url, more, folder = "/pkg") => {
  const { StreamingLoader } = await import(`${folder}/weightstream.js`);
  const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const hashes = async (tensor) => {
    const found = {};
    for (const [role, { data }] of tensor.components) found[role] = hex(await crypto.subtle.digest("SHA-256", data));
    return found;
  };
  // One fixture has a `base_url` with a host that does not exist. Its files are next to it, where mmap also finds them.
  const besides = (address) => new URL(address.split("/").pop(), new URL(url, location.origin));
  const local = (address) => (address.startsWith(location.origin) ? address : besides(address));
  const retry = { attempts: 2, baseDelay: 10 };
  const options = { fetch: (address, init) => fetch(local(address), init), retry, ...more };
  try {
    const loader = await StreamingLoader.open(url, options);
    const exact = (key, value) => {
      if (key === "file") return undefined; // a URL here, a path natively
      return typeof value === "bigint" ? `${value}n` : value;
    };
    const head = JSON.stringify([await loader.loadMetadata(), await loader.loadIndex()], exact);
    const single = Object.create(null), streamed = Object.create(null);
    for (const { name } of (await loader.loadIndex()).slice(0, 100)) {
      single[name] = await hashes(await loader.loadTensor(name));
    }
    for await (const tensor of loader.tensors()) streamed[tensor.name] = await hashes(tensor);
    await loader.verify();
    loader.close();
    return { head, single, streamed };
  } catch (error) {
    return { code: error.code ?? String(error), message: error.message };
  }
}
