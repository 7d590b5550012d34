// @ts-check
// What a model or a file is loaded from: URLs become absolute text, handles and dropped items become files, and a
// Response becomes a URL with a `fetch` that returns it.
import { getter, invalidValue, shown, tryGet } from "../options/check.js";
import { fail, invalid } from "../loader/error.js";
import { messageOf } from "../module/guard.js";
import { laterScript } from "../module/later.js";
import { checkOwnCache, ownFolderOf, ownOptions } from "../module/location.js";
import { isResponse, onceOptions } from "./once.js";
import { absolute, textOf } from "./url.js";

/** @import { CheckedOpenOptions, CheckedSource, FileHandle, FolderHandle } from "../module/glue.js" */

const fileNameOf = getter("File", "name");
const fileCountOf = getter("FileList", "length");
const itemCountOf = getter("DataTransferItemList", "length");
const lengthOfBuffer = getter("ArrayBuffer", "byteLength");

/** The maximum number of files in a folder. A model has far fewer; a folder such as the user's home has far more. */
const MAX_FILES = 10_000;

/** @typedef {[file: File, path: string]} NamedFile */

/**
 * Checks a source, and adds the options that it needs itself. Dropped items are read before the first `await`, after
 * which they are empty.
 *
 * @template {{ fetch?: typeof fetch | undefined, cache?: unknown, adapters?: any[] }} Options
 * @param {unknown} source
 * @param {Options} given
 * @returns {Promise<{ source: CheckedSource, options: Options }>}
 */
export async function prepared(source, given) {
  const options = { ...given };
  if (given.adapters) {
    const checked = given.adapters.map(async ({ source, ...others }) => {
      if (isResponse(source)) throw invalid("`source` of an adapter is a Response. Pass its URL");
      return { source: await sourceOf(source, given.fetch !== undefined), ...others };
    });
    options.adapters = await Promise.all(checked);
  }
  if (isResponse(source)) {
    const [url, own] = onceOptions(source, options.fetch);
    return { source: url, options: { ...options, ...own } };
  }
  const checked = await sourceOf(source, options.fetch !== undefined);
  const all = { ...ownOptions(checked), ...options };
  if (typeof checked === "string" && (all.cache ?? "auto") === "auto") checkOwnCache();
  return { source: checked, options: all };
}

/** Verifies signatures of models. */
export const signatureScript = laterScript("weightstream.signature.js", () => import("../signature/signature.js"));

/**
 * Verifies the signature that the options name, if they name one.
 *
 * @template {{ signature?: any }} Options
 * @param {{ source: CheckedSource, options: Options }} ready
 * @param {unknown} given The source as the caller passed it.
 * @returns {Promise<{ source: CheckedSource, options: Options }>}
 */
export async function withSignature(ready, given) {
  const { source, options } = ready;
  if (!options.signature) return ready;
  if (isResponse(given)) throw invalid("`signature` cannot be combined with a Response, which can be read only once");
  const signatures = await signatureScript.load();
  const signature = await signatures.verifiedSignature(options.signature, source, options);
  return { source, options: { ...options, signature } };
}

/** Finds files in Cross-Origin Storage. */
export const crossOriginScript = laterScript("weightstream.cross_origin.js", () => import("../cache/cross_origin.js"));

/**
 * Cross-Origin Storage, if the options ask for it. Without the script, the files are loaded as usual.
 *
 * @param {Pick<CheckedOpenOptions, "crossOriginStorage">} options
 */
export async function sharedStorage({ crossOriginStorage: mode }) {
  if (mode !== true && mode !== "read") return undefined;
  try {
    return await (await crossOriginScript.load()).openStorage(mode);
  } catch (error) {
    const stats = { filesFound: 0, filesStored: 0, filesWithoutDigest: 0, error: messageOf(error) };
    return { stats, access: undefined };
  }
}

/**
 * @param {any} source
 * @param {boolean} isFetchedByCaller
 * @returns {Promise<CheckedSource>}
 */
async function sourceOf(source, isFetchedByCaller) {
  const text = textOf(source);
  const url = text === undefined ? undefined : absolute(text, "source", isFetchedByCaller);
  const folder = url === undefined || isFetchedByCaller ? undefined : ownFolderOf(url);
  if (folder) return filesOfFolder(folder);
  if (url !== undefined) return url;
  if (tryGet(lengthOfBuffer, source) !== undefined) checkAttached(source);
  const isDrop = tryGet(itemCountOf, source) !== undefined;
  if (isDrop || Array.isArray(source) || tryGet(fileCountOf, source) !== undefined) {
    const items = Array.from(source).filter((item) => !isDrop || item.kind === "file");
    if (isDrop && items.length === 0) throw noDroppedFile("`source` has no file");
    const picked = items.map((item) => pick(item) ?? invalidItem(item));
    const files = [];
    for (const item of picked) files.push(...(await filesOf(item)));
    return files;
  }
  const picked = pick(source);
  if (!picked || Array.isArray(picked)) return picked?.[0] ?? checkUnknown(source);
  return "getFile" in picked ? read(picked) : filesOfFolder(picked);
}

/** @param {FolderHandle} folder */
async function filesOfFolder(folder) {
  const files = await filesOf(folder);
  if (files.length === 0) throw invalid(`the folder "${folder.name}" contains no files`);
  return files;
}

/**
 * What a value stands for: a file, or a handle of a file or folder. Undefined for anything else.
 *
 * @param {any} value
 * @returns {NamedFile | FileHandle | FolderHandle | undefined}
 */
function pick(value) {
  const name = tryGet(fileNameOf, value);
  if (name !== undefined) return [value, value.webkitRelativePath || name];
  const has = (/** @type {string} */ method) => typeof value?.[method] === "function";
  if (value?.kind === "file" && has("getFile")) return value;
  if (value?.kind === "directory" && has("values")) return value;
  if (!has("getAsFile")) return undefined;
  if (value.kind === "string") throw noDroppedFile("`source` is a dropped text");
  // All browsers have `webkitGetAsEntry`. Of a folder, `getAsFile` returns a file that cannot be read.
  const entry = has("webkitGetAsEntry") ? value.webkitGetAsEntry() : undefined;
  if (entry?.isDirectory) return handleOf(entry);
  const file = value.getAsFile();
  if (!file) throw noDroppedFile("the dropped item has no file");
  return [file, file.name];
}

/**
 * A dropped file or folder as a handle.
 *
 * @param {any} entry
 * @returns {FileHandle | FolderHandle}
 */
function handleOf(entry) {
  const { name } = entry;
  if (entry.isDirectory) return { name, values: () => entriesOf(entry.createReader()) };
  return { name, getFile: () => new Promise((resolve, reject) => entry.file(resolve, reject)) };
}

/** @param {any} reader */
async function* entriesOf(reader) {
  for (;;) {
    // Each call returns some of the entries, and the last one none.
    const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (batch.length === 0) return;
    yield* batch.map(handleOf);
  }
}

/**
 * The files of a folder have paths that start with its name, like those of `<input webkitdirectory>`.
 *
 * @param {NamedFile | FileHandle | FolderHandle} picked
 * @returns {Promise<NamedFile[]>}
 */
async function filesOf(picked) {
  if (Array.isArray(picked)) return [picked];
  if ("getFile" in picked) return [[await read(picked), picked.name]];
  /** @type {NamedFile[]} */
  const files = [];
  await walk(picked, `${picked.name || "."}/`, files);
  return files;
}

/**
 * Adds the files of a folder and of the folders in it, without hidden ones: `.git` can contain copies of a model.
 *
 * @param {FolderHandle} folder
 * @param {string} path
 * @param {NamedFile[]} files
 */
async function walk(folder, path, files) {
  try {
    for await (const entry of folder.values()) {
      if (entry.name.startsWith(".")) continue;
      if ("values" in entry) await walk(entry, `${path}${entry.name}/`, files);
      else files.push([await read(entry), path + entry.name]);
      if (files.length > MAX_FILES) {
        const [name] = path.split("/");
        const message = `the folder "${name}" has more than ${MAX_FILES} files. Choose the folder of the model itself.`;
        throw fail({ code: "LIMIT", message });
      }
    }
  } catch (error) {
    throw readError(error, path);
  }
}

/** @param {FileHandle} handle */
async function read(handle) {
  try {
    return await handle.getFile();
  } catch (error) {
    throw readError(error, handle.name);
  }
}

/**
 * @param {unknown} error
 * @param {string} path
 */
function readError(error, path) {
  const { name, code } = /** @type {any} */ (error);
  if (name === "LoadError") return error;
  const what = `"${path}" cannot be read: ${messageOf(error)}.`;
  const advice = name === "NotAllowedError"
    ? "Call requestPermission() of its handle when the user clicks, then open it again."
    : "Choose it again.";
  const kind = name === "NotFoundError" || code === 8 ? "NOT_FOUND" : "IO";
  return fail({ code: kind, message: `${what} ${advice}`, cause: error });
}

/** @param {string} what */
const noDroppedFile = (what) =>
  invalid(`${what}. The items of a drop can be read only while its event is handled: call this before the first await`);

/**
 * @param {unknown} item
 * @returns {never}
 */
function invalidItem(item) {
  throw invalid(`\`source\` is an array with ${shown(item)}, but must contain only Files and handles of files`);
}

/** @param {any} buffer */
function checkAttached(buffer) {
  try {
    new Uint8Array(buffer);
  } catch (cause) {
    throw invalid("`source` is detached: its memory was transferred or resized", cause);
  }
}

const EXPECTED = "a URL, a Blob, a File, files, a FileSystemHandle, a dropped item, a Response, or an object with " +
  "byteLength and slice()";

/**
 * Sources without a class, which the module reads itself.
 *
 * @param {any} source
 */
function checkUnknown(source) {
  try {
    const isBlob = Object.prototype.toString.call(source) === "[object Blob]";
    const isBytes = source?.byteLength >= 0 && typeof source.slice === "function";
    if (isBlob || isBytes) return source;
  } catch (cause) {
    throw invalid(`\`source\` throws when it is read: ${messageOf(cause)}`, cause);
  }
  throw invalidValue("source", source, EXPECTED);
}
