// @ts-check
// URLs of Hugging Face as people copy them: of a repository, a folder, or the page of a file.

const SITES = ["huggingface.co", "www.huggingface.co", "hf.co"];
const ORIGIN = "https://huggingface.co";
const VIEWS = ["blob", "resolve", "raw", "tree", "blame", "commits"];
const DEFAULT_REVISION = "main";

/** The files of a sharded and of an ordinary model. Of several files, the first of these is the model. */
const USUAL = ["model.safetensors.index.json", "model.safetensors"];
const MODEL_FILE =
  /\.(aero|aeroset|apr|bpk|burnpack|embd|gguf|onnx|safetensors|safetensors\.index\.json|weights|zt|ztensor)$/i;
/** The models of repositories that have none of these files. */
const OTHER_FILE =
  /\.(ckpt|h5|hdf5|keras|litertlm|npy|npz|pt|pth|task|tflite)$|(^|\/)(pytorch_model.*\.bin|model\.json)$/i;
// A sharded model is opened by its index, that of GGUF by its first shard.
const SHARD = /-\d{5}-of-\d{5}\.safetensors$|-(?!00001)\d{5}-of-\d{5}\.gguf$/i;

/**
 * A file, or the folder `path` of a repository.
 *
 * @typedef {object} Place
 * @property {string} repository
 * @property {string} revision
 * @property {string} path
 * @property {boolean} isFile
 */

/** @typedef {{ path: string, byteLength: number, url: string }} HubFile */

/**
 * What a URL of Hugging Face refers to; `undefined` for other URLs.
 *
 * @param {URL} url
 * @returns {Place | undefined}
 */
export function placeOf({ protocol, hostname, pathname }) {
  if (!protocol.startsWith("http") || !SITES.includes(hostname)) return undefined;
  const parts = pathname.split("/").filter(Boolean);
  const kind = ["datasets", "spaces"].includes(parts[0]) ? parts.splice(0, 1) : [];
  // Some old repositories have no owner.
  const length = parts.length === 1 || VIEWS.includes(parts[1]) ? 1 : 2;
  const repository = [...kind, ...parts.slice(0, length)].join("/");
  const [view, revision = DEFAULT_REVISION, ...path] = parts.slice(length);
  if (!repository || (view !== undefined && !VIEWS.includes(view))) return undefined;
  return { repository, revision, path: path.join("/"), isFile: path.length > 0 && view !== "tree" };
}

/**
 * The URL of the bytes of a file.
 *
 * @param {Place} place
 */
export function fileUrl({ repository, revision, path }) {
  return `${ORIGIN}/${repository}/resolve/${revision}/${path}`;
}

/**
 * The models in a folder and below it: one if it is clear which file is the model.
 *
 * @param {Place} place
 * @param {AbortSignal} signal
 * @returns {Promise<HubFile[]>}
 */
export async function modelsIn(place, signal) {
  const { repository, revision, path } = place;
  const kind = /^(datasets|spaces)\//.test(repository) ? "" : "models/";
  const folder = path ? `/${path}` : "";
  const listing = `${ORIGIN}/api/${kind}${repository}/tree/${revision}${folder}?recursive=true`;
  const response = await fetch(listing, { signal });
  if (!response.ok) {
    throw new Error(`Hugging Face does not list the files of ${repository} at ${decodeURIComponent(revision)} ` +
      `(status ${response.status}). Check the name; the repository must be public.`);
  }
  /** @type {{ type: string, path: string, size: number }[]} */
  const entries = await response.json();
  const named = (/** @type {RegExp} */ name) =>
    entries.filter(({ type, path }) => type === "file" && name.test(path) && !SHARD.test(path));
  const models = named(MODEL_FILE);
  const files = models.length > 0 ? models : named(OTHER_FILE);
  const prefix = path ? `${decodeURIComponent(path)}/` : "";
  const usual = USUAL.map((name) => files.find((file) => file.path === prefix + name));
  const chosen = usual.find((file) => file !== undefined);
  if (files.length === 0) throw new Error(`${repository} has no file in a format that weightstream reads.`);
  return (chosen ? [chosen] : files).map(({ path, size }) => {
    const encoded = path.split("/").map(encodeURIComponent).join("/");
    return { path, byteLength: size, url: fileUrl({ ...place, path: encoded }) };
  });
}
