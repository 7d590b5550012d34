// Adds the exports of `weightstream/folders` to the page, and functions that load into a folder: one of the origin
// private file system, in place of one that the user has chosen.
(async () => {
  const folders = await import("/pkg/weightstream.folders.js");
  const folder = async (name = "chosen") =>
    (await navigator.storage.getDirectory()).getDirectoryHandle(name, { create: true });
  const pathsOf = async (handle, path = "") => {
    const paths = [];
    for await (const entry of handle.values()) {
      if (entry.kind === "file") paths.push(path + entry.name);
      else paths.push(...(await pathsOf(entry, `${path}${entry.name}/`)));
    }
    return paths.sort();
  };
  const fileAt = async (path) => {
    const names = path.split("/");
    let at = await folder();
    for (const name of names.slice(0, -1)) at = await at.getDirectoryHandle(name);
    return at.getFileHandle(names.at(-1));
  };
  const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const until = async (condition) => {
    for (let tries = 0; tries < 400; tries++) {
      const value = await condition();
      if (value) return value;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    throw new Error(`timed out waiting for ${condition}`);
  };
  /** A folder whose calls fail as soon as `isFailing` says so, with an error of this name. */
  const failing = (handle, name, isFailing) => new Proxy(handle, {
    get(target, property) {
      const value = target[property];
      if (typeof value !== "function") return value;
      return (...given) => {
        if (property !== "queryPermission" && isFailing()) throw new DOMException("test failure", name);
        const result = value.apply(target, given);
        const wrap = (found) => (found?.kind ? failing(found, name, isFailing) : found);
        return typeof result?.then === "function" ? result.then(wrap) : result;
      };
    },
  });
  Object.assign(window, folders, {
    folder, failing, fileAt, until,
    inFolder: async (url) => load(url, { cache: await folder() }),
    /** Loads, and waits until the folder has the complete file. */
    async complete(url, options) {
      const cache = await folder();
      const report = await load(url, { cache, ...options });
      await until(async () => (await folderFiles(cache)).every(({ path }) => path !== undefined));
      return report;
    },
    paths: async () => pathsOf(await folder()),
    sha256At: async (path) =>
      hex(await crypto.subtle.digest("SHA-256", await (await (await fileAt(path)).getFile()).arrayBuffer())),
    async change(path, bytes) {
      const writable = await (await fileAt(path)).createWritable({ keepExistingData: bytes !== "" });
      await writable.write({ type: "write", position: 0, data: bytes });
      await writable.close();
    },
    removeFolder: async () => (await navigator.storage.getDirectory()).removeEntry("chosen", { recursive: true }),
  });
})()
