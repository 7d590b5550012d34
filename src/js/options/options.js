// @ts-check
// Checks the arguments of all public calls. The checks run on the page, also for a loader in a worker. They return
// plain data of this realm, which `src/js/options.rs` reads. Unknown options are errors.
import { check, getter, invalidValue, shown, suggestion, tryGet } from "./check.js";
import { BACKGROUND_ERROR, cacheAt, isFolder, isStorageBucket } from "../cache/place.js";
import { fail, invalid } from "../loader/error.js";
import { messageOf } from "../module/guard.js";
import { textOf, tryUrl, urlOf } from "../source/url.js";

/**
 * @template T
 * @typedef {import("./check.js").Check<T>} Check
 */

const abortedOf = getter("AbortSignal", "aborted");
const lengthOfBuffer = getter("ArrayBuffer", "byteLength");
const lengthOfShared = getter("SharedArrayBuffer", "byteLength");
const arrayOf = getter("Uint8Array", Symbol.toStringTag);

/**
 * @param {number} min
 * @param {number} [max]
 * @returns {Check<number>}
 */
export const integer = (min, max = Number.MAX_SAFE_INTEGER) =>
  check(
    (value) => Number.isInteger(value) && value >= min && value <= max,
    max === Number.MAX_SAFE_INTEGER ? `an integer of at least ${min}` : `an integer from ${min} to ${max}`,
  );

/** @type {Check<boolean>} */
export const boolean = check((value) => typeof value === "boolean", "true or false");
export const callable = check((value) => typeof value === "function", "a function");
/** @type {Check<string>} */
export const string = check((value) => typeof value === "string", "a string");

/**
 * The module gets a function that returns nothing else than a string or undefined.
 *
 * @type {Check<false | ((path: string, url: string) => string | undefined)>}
 */
function partUrl(value, name) {
  if (value === false) return value;
  if (typeof value !== "function") throw invalidValue(name, value, "a function or false");
  return (path, url) => {
    const returned = value(path, url);
    if (returned === undefined || typeof returned === "string") return returned;
    const what = `\`${name}\` returned ${shown(returned)} for the model's file "${path}"`;
    throw invalid(`${what}, but must return a string or undefined`);
  };
}

/**
 * @param {unknown} value
 * @returns {value is Record<PropertyKey, any>}
 */
const isObject = (value) => typeof value === "object" && value !== null;

/**
 * Whether an object is of no class: `{ … }`, also that of another realm.
 *
 * @param {object} value
 */
function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/**
 * As in `fetch`, null means no signal.
 *
 * @type {Check<AbortSignal | undefined>}
 */
export function signal(value, name) {
  if (value === null) return undefined;
  if (tryGet(abortedOf, value) === undefined) throw invalidValue(name, value, "an AbortSignal");
  return value;
}

/**
 * Everything that `fetch` accepts: an object, an array of pairs, a Map, Headers.
 *
 * @type {Check<[name: string, value: string][]>}
 */
function headers(value, name) {
  let pairs;
  try {
    pairs = Array.from(new Headers(value));
  } catch (cause) {
    throw invalid(`\`${name}\` is not accepted by fetch() as headers (${messageOf(cause)})`, cause);
  }
  const hasRange = pairs.some(([header]) => header === "range");
  if (hasRange) throw invalid(`\`${name}\` contains Range, which weightstream sets`);
  return pairs;
}

const CREDENTIALS = ["omit", "same-origin", "include"];
/** @type {Check<RequestCredentials>} */
const credentials = (value, name) => {
  if (CREDENTIALS.includes(value)) return value;
  throw invalidValue(name, value, `one of ${CREDENTIALS.map(shown).join(", ")}${suggestion(value, CREDENTIALS)}`);
};

const CACHES = ["auto", "opfs", "none"];
const CACHE_METHODS = ["get", "set", "delete", "keys"];
/** @type {Check<"auto" | "opfs" | "none" | import("../weightstream.js").WeightCache>} */
const cache = (value, name) => {
  if (CACHES.includes(value)) return value;
  if (isFolder(value) || isStorageBucket(value)) return cacheAt(value);
  if (isObject(value) && BACKGROUND_ERROR in value) return value; // checked before
  if (isObject(value) && CACHE_METHODS.every((method) => typeof value[method] === "function")) return value;
  const expected = `one of ${CACHES.map(shown).join(", ")}, a FileSystemDirectoryHandle, ` +
    '{ storageBucket: "name" }, or an object with get, set, delete and keys';
  throw invalidValue(name, value, expected + suggestion(value, CACHES));
};

/** @type {Check<boolean | "read">} */
const crossOriginStorage = check((value) => value === "read" || typeof value === "boolean", 'true, false or "read"');

/**
 * An object or a Map of strings, as pairs.
 *
 * @type {Check<[key: string, value: string][]>}
 */
function strings(value, name) {
  if (!isObject(value)) throw invalidValue(name, value, "an object of strings");
  const pairs = typeof value[Symbol.iterator] === "function" ? iterated(value, name) : Object.entries(value);
  for (const pair of pairs) {
    const isPair = Array.isArray(pair) && pair.length === 2 && typeof pair[0] === "string";
    if (!isPair) throw invalidValue(name, value, "an object of strings");
    if (typeof pair[1] !== "string") throw invalidValue(`${name}[${shown(pair[0])}]`, pair[1], "a string");
  }
  return pairs;
}

/** @type {Check<Map<string, import("../weightstream.js").Digest>>} */
function digestsByUrl(value, name) {
  return new Map(strings(value, name).map(([url, text]) => [urlOf(url), digest(text, `${name}[${shown(url)}]`)]));
}

/** @type {Check<any[]>} */
function iterated(value, name) {
  try {
    return Array.from(value);
  } catch (cause) {
    throw invalid(`\`${name}\` cannot be iterated over (${messageOf(cause)})`, cause);
  }
}

/**
 * The items of an array, or of another object that is not a text.
 *
 * @param {any} value
 * @param {string} name
 */
function listed(value, name) {
  if (!isObject(value) || typeof value[Symbol.iterator] !== "function") throw invalidValue(name, value, "an array");
  return iterated(value, name);
}

/**
 * @param {any} value
 * @returns {string[]}
 */
export function names(value, name = "names") {
  const expected = "an array or another iterable of names";
  if (!isObject(value) || typeof value[Symbol.iterator] !== "function") throw invalidValue(name, value, expected);
  const items = iterated(value, name);
  const other = items.find((item) => typeof item !== "string");
  if (other !== undefined || items.includes(undefined)) {
    throw invalid(`\`${name}\` contains ${shown(other)}, but all names must be strings`);
  }
  return items;
}

/**
 * The name of a tensor: the name itself, or an entry of the index.
 *
 * @param {any} value
 * @returns {string}
 */
export const tensorName = (value) => {
  const name = isObject(value) ? value.name : value;
  return check((name) => typeof name === "string", "the name of a tensor, or an entry of the index")(name, "name");
};

/** @type {Check<[first: number, end: number]>} */
function rows(value, name) {
  const isRow = (/** @type {unknown} */ row) => Number.isSafeInteger(row) && Number(row) >= 0;
  const isList = Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
  const [first, end, ...others] = isList ? Array.from(/** @type {ArrayLike<any>} */ (value)) : [];
  if (isRow(first) && isRow(end) && others.length === 0 && first <= end) return [first, end];
  throw invalidValue(name, value, "a pair of row numbers, [first, end]");
}

/**
 * All bytes of a buffer, or of a view of one.
 *
 * @type {Check<Uint8Array>}
 */
function into(value, name) {
  const isView = ArrayBuffer.isView(value);
  const length = isView ? undefined : tryGet(lengthOfBuffer, value) ?? tryGet(lengthOfShared, value);
  if (!isView && length === undefined) {
    throw invalidValue(name, value, "an ArrayBuffer, a SharedArrayBuffer or a view of one");
  }
  try {
    if (isView) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    return new Uint8Array(value, 0, length);
  } catch (cause) {
    throw invalid(`\`${name}\` is detached: its memory was transferred or resized`, cause);
  }
}

/**
 * An object of options, each with a check of its own. An option that is undefined is like one that is absent.
 *
 * @template {Record<string, Check<any>>} Known
 * @param {Known} known
 * @param {string} [call] The call that has these options, unless they are an option themselves.
 * @returns {(given: any, name?: string) => { [Name in keyof Known]?: ReturnType<Known[Name]> }}
 */
export function options(known, call = "") {
  return (given, name) => {
    const prefix = name === undefined ? "" : `${name}.`;
    if (!isObject(given) || typeof given[Symbol.iterator] === "function") {
      const what = name === undefined ? `the options of ${call} are` : `\`${name}\` is`;
      throw invalid(`${what} ${shown(given)}, but must be an object`);
    }
    /** @type {any} */
    const checked = {};
    const knownNames = Object.keys(known);
    for (const option of knownNames) {
      if (given[option] !== undefined) checked[option] = known[option](given[option], prefix + option);
    }
    for (const option in given) {
      if (Object.prototype.hasOwnProperty.call(known, option) || given[option] === undefined) continue;
      const what = name === undefined ? call : `\`${name}\``;
      const all = `: ${what} has ${knownNames.map((name) => `\`${name}\``).join(", ")}`;
      throw invalid(`there is no option \`${prefix}${option}\`${suggestion(option, knownNames) || all}`);
    }
    return checked;
  };
}

const RETRY = options({
  attempts: integer(0),
  baseDelay: integer(0),
  maxDelay: integer(0),
  stallTimeout: integer(0),
});
/** @type {Check<string>} */
const httpUrl = (value, name) => {
  const url = urlOf(value, name);
  if (!/^https?:/.test(url)) throw invalidValue(name, value, "an http(s) URL");
  return url;
};
const HUB_OPTIONS = options({
  endpoint: httpUrl,
  token: check((value) => typeof value === "string" && /^[!-~]+$/.test(value), "a token of printable characters"),
});
/** @type {Check<{ endpoint?: string, token?: string }>} Without an endpoint, no URL is that of a hub. */
const hub = (value, name) => (value === null ? { endpoint: "" } : HUB_OPTIONS(value, name));
/** @type {Check<object>} signature.js checks its fields. */
const signature = check(isObject, "an object with `url` and `publicKey`");
/**
 * The signature of a model of which several files are opened.
 *
 * @type {Check<object>}
 */
export const commonSignature = (value, name) => {
  const checked = signature(value, name);
  if (/** @type {{ path?: unknown }} */ (checked).path === undefined) return checked;
  throw invalid(`\`${name}.path\` is the path of one file, but these options are for several files`);
};
/** @type {Check<string>} The JSON of an object such as the content of a `config.json`. */
const config = (value, name) => {
  if (!isObject(value) || Array.isArray(value)) throw invalidValue(name, value, "the object in a config.json");
  return JSON.stringify(value);
};
const ADAPTER = options({
  source: (value) => value,
  scale: check((value) => Number.isFinite(value), "a finite number"),
  config,
});
/** @type {Check<{ source: any, scale?: number, config?: string }[]>} source.js checks the sources. */
const adapters = (value, name) =>
  listed(value, name).map((given, at) => {
    const { source, ...others } = ADAPTER(given, `${name}[${at}]`);
    if (source === undefined) throw invalid(`\`${name}[${at}]\` has no \`source\``);
    return { source, ...others };
  });
/** @type {Check<string[]>} */
const mirrors = (value, name) => listed(value, name).map((given, at) => httpUrl(given, `${name}[${at}]`));
const INIT = options({
  module: (value) => value,
  worker: callable,
  workerUrl: urlOf,
}, "init");
const OPEN = options({
  signal,
  fetch: callable,
  headers,
  credentials,
  onProgress: callable,
  verify: boolean,
  concurrency: integer(1, 16),
  coalesceGap: integer(0),
  cache,
  cacheKey: callable,
  crossOriginStorage,
  partUrl,
  config,
  adapters,
  maxMemory: integer(0),
  workers: integer(0, 16),
  inWorker: boolean,
  digests: options({ tensors: strings, files: strings }),
  retry: RETRY,
  hub,
  signature,
  mirrors,
}, "open");
const DIGEST = /^(sha256|blake3|crc32|crc32c):[0-9a-f]+$/i;
/** @type {Check<import("../weightstream.js").Digest>} */
const digest = check((value) => typeof value === "string" && DIGEST.test(value), 'a digest such as "sha256:9f86d08…"');
/** @type {Check<string[]>} A path is refused: it would suggest that only URLs below it get something. */
const origins = (value, name) =>
  listed(value, name).map((given) => {
    const { href, protocol, host } = tryUrl(textOf(given) ?? "") ?? {};
    const origin = `${protocol}//${host}`;
    if (host && (href === origin || href === `${origin}/`)) return origin;
    throw invalid(`\`${name}\` contains ${shown(given)}, but must contain origins such as "https://example.org"`);
  });

const REQUESTS = {
  signal,
  fetch: callable,
  headers,
  credentials,
  cache,
  cacheKey: callable,
  crossOriginStorage,
  retry: RETRY,
};
/** The options of `openFile` that apply to any number of files, and the origins that get headers and credentials. */
export const FILES = { ...REQUESTS, origins };

/**
 * Digests by the name of a file.
 *
 * @type {Check<Map<string, string>>}
 */
export const digests = (value, name) =>
  new Map(strings(value, name).map(([file, text]) => [file, digest(text, `${name}[${shown(file)}]`)]));

const FILE = {
  ...REQUESTS,
  hub,
  onProgress: callable,
  maxMemory: integer(0),
  digest,
  signature,
  type: check((value) => typeof value === "string", "a media type"),
};
const OPEN_FILE = options({ ...FILE, mirrors }, "openFile");
const OPEN_FILES = options({ ...FILE, origins }, "openFile");
const PREFILLED = { ...FILES, onProgress: callable, digests: digestsByUrl };
const { signal: _, ...ARTIFACTS } = PREFILLED; // each call of the cache has its own signal
const ARTIFACT_CACHE = options(ARTIFACTS, "ArtifactCache");
const PREFILL = options(PREFILLED, "prefill");
const READ_FILE = options({ signal, start: integer(0), end: integer(0) }, "stream");
const isGpuDevice = (/** @type {any} */ value) =>
  isObject(value) && typeof value["createBuffer"] === "function" && isObject(value["queue"]);
const gpu = {
  device: check(isGpuDevice, "a GPUDevice"),
  usage: integer(1, 0xffff),
  as: check((value) => value === "F32" || value === "F16", '"F32" or "F16"'),
};
const layout = check((value) => value === "dense", '"dense"');
const LOAD_TENSOR = options({ signal, into, rows, layout, onChunk: callable, ...gpu }, "loadTensor");
/**
 * A position in a file.
 *
 * @type {Check<number>}
 */
export const position = integer(0);
const isOrder = (/** @type {any} */ value) => value === "file" || value === "given";
const TENSORS = options({ names, order: check(isOrder, '"file" or "given"'), signal, layout, ...gpu }, "tensors");
const CALL = options({ signal }, "this call");

/**
 * @template T
 * @param {(given: any) => T} read
 * @returns {(given: any) => Partial<T>}
 */
export const optional = (read) => (given) => (given === undefined ? {} : read(given));

/**
 * @template {{ device?: unknown, usage?: unknown, as?: unknown, layout?: unknown }} T
 * @param {T} checked
 */
function converting(checked) {
  if (checked.usage !== undefined && !checked.device) throw invalid("`usage` requires `device`");
  if (checked.layout && checked.device) throw invalid("`layout` cannot be combined with `device`");
  if (checked.as === "F16" && !checked.device && !("Float16Array" in globalThis)) {
    const message = '`as: "F16"` needs Float16Array, which this JavaScript engine does not have. Use `as: "F32"`, or ' +
      "load the tensor without `as`.";
    throw fail({ code: "UNSUPPORTED", message });
  }
  return checked;
}

export const openOptions = optional(OPEN);
export const fileOptions = optional(OPEN_FILE);
/** Options of `openFile` for several files. */
export const filesOptions = optional(OPEN_FILES);
export const artifactOptions = optional(ARTIFACT_CACHE);
export const modelArtifactsOptions = optional(options({ bfloat16: boolean }, "ModelArtifacts"));
/**
 * What `init` was given, which may be the module itself.
 *
 * @param {any} given
 * @returns {import("../weightstream.js").InitOptions}
 */
export function initOptions(given) {
  if (!isObject(given) || !isPlain(given)) return { module: given };
  const checked = INIT(given);
  if (checked.workerUrl && checked.worker) throw invalid("only one of `worker` and `workerUrl` can be given");
  return checked;
}
export const prefillOptions = optional(PREFILL);
export const readOptions = optional(READ_FILE);
export const tensorOptions = optional((given) => {
  const checked = converting(LOAD_TENSOR(given));
  if (checked.device && checked.into) throw invalid("`into` cannot be combined with `device`");
  const others = Object.entries({ as: checked.as, device: checked.device, into: checked.into, layout: checked.layout });
  const other = checked.onChunk && others.find(([, value]) => value !== undefined);
  if (other) throw invalid(`\`onChunk\` cannot be combined with \`${other[0]}\``);
  /** @type {string | undefined} */
  const intoArray = checked.into && tryGet(arrayOf, given.into);
  return { ...checked, intoArray };
});
/** Options of calls that only have a signal. */
export const callOptions = optional(CALL);
export const tensorsOptions = optional((given) => {
  if (typeof given === "string" || typeof given?.[Symbol.iterator] === "function") {
    throw invalid("tensors() takes an object: write tensors({ names: [...] })");
  }
  const checked = converting(TENSORS(given));
  if (checked.order === "given" && !checked.names) throw invalid('`order: "given"` requires `names`');
  return checked;
});
