// A Cross-Origin Storage for tests, with one of the three interfaces that are in use. `files` has `get`, which resolves
// to a Blob or undefined, and `set`: the files of all origins, by SHA-256.

const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** @param {string} name */
const failure = (name) => new DOMException(`the mock fails with ${name}`, name);

/**
 * `fails` names the exception of each method that fails, `log` gets what happens to files that are written.
 *
 * @param {"getFileHandle" | "requestFileHandle" | "requestFileHandles"} method
 */
export function mockOf(method, files, { fails = {}, log = [] } = {}) {
  const throwIfFailing = (name) => {
    if (fails[name]) throw failure(fails[name]);
  };
  const handleOf = async (hash, { create = false, origins, ...others } = {}) => {
    throwIfFailing("handle");
    const isValid = hash?.algorithm === "SHA-256" && /^[0-9a-f]{64}$/.test(hash.value);
    const isKnown = Object.keys(others).length === 0 && (create ? origins === "*" : origins === undefined);
    if (!isValid || !isKnown) throw new TypeError("the mock takes other arguments");
    const found = await files.get(hash.value);
    if (!found && !create) throw failure("NotFoundError");
    const getFile = async () => {
      throwIfFailing("getFile");
      if (create) throw failure("NotAllowedError");
      return new File([found], hash.value);
    };
    return { getFile, createWritable: async () => writableOf(hash.value) };
  };
  const writableOf = (sha256) => {
    const chunks = [];
    log.push("create");
    return {
      async write(chunk) {
        throwIfFailing("write");
        chunks.push(chunk);
        log.push(chunk.byteLength);
      },
      async close() {
        log.push("close");
        throwIfFailing("close");
        const blob = new Blob(chunks);
        if (hex(await crypto.subtle.digest("SHA-256", await blob.arrayBuffer())) !== sha256) throw failure("DataError");
        await files.set(sha256, blob);
      },
      abort: async () => void log.push("abort"),
    };
  };
  const ofOneHash = (hash, options) => {
    if (Array.isArray(hash)) throw new TypeError("the mock takes one hash");
    return handleOf(hash, options);
  };
  const ofHashes = async (hashes, options) => Promise.all(hashes.map((hash) => handleOf(hash, options)));
  if (method !== "requestFileHandles") return { [method]: ofOneHash };
  // A name alone does not say which arguments a method takes.
  return { requestFileHandle: ofHashes, requestFileHandles: ofHashes };
}
