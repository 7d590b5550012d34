// What calls may be given: every option that there is, and the one place where they are checked, on the page, also for a loader in
// a worker. What comes out is plain data of this realm, `src/js/options.rs` reads it; what is not understood is an error.
import { invalid } from "./weightstream.error.js";

const hasOwn = (object, name) => Object.prototype.hasOwnProperty.call(object, name);

// Platform objects of other frames and windows are as good as ours: their getters work on each other's, `instanceof` does not.
const getter = (of, name) => Object.getOwnPropertyDescriptor(globalThis[of]?.prototype ?? {}, name)?.get;
const abortedOf = getter("AbortSignal", "aborted");
const hrefOf = getter("URL", "href");
const fileNameOf = getter("File", "name");
const fileCountOf = getter("FileList", "length");
const lengthOfBuffer = getter("ArrayBuffer", "byteLength");
const lengthOfShared = getter("SharedArrayBuffer", "byteLength");

const attempt = (get, value) => {
  try {
    return get?.call(value);
  } catch {
    return undefined;
  }
};

// A value as an error shows it.
function shown(value) {
  if (typeof value === "string") return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return value.length > 4 ? `an array of ${value.length}` : `[${value.map(shown).join(", ")}]`;
  return typeof value === "object" && value !== null ? Object.prototype.toString.call(value) : String(value);
}

const wrong = (name, value, wanted) => invalid(`\`${name}\` is ${shown(value)}, but must be ${wanted}`);

const must = (test, wanted) => (value, name) => {
  if (test(value)) return value;
  throw wrong(name, value, wanted);
};

const whole = (least, most = Number.MAX_SAFE_INTEGER) =>
  must(
    (value) => Number.isInteger(value) && value >= least && value <= most,
    most === Number.MAX_SAFE_INTEGER ? `a whole number, ${least} or more` : `a whole number from ${least} to ${most}`,
  );

const flag = must((value) => typeof value === "boolean", "true or false");
const callable = must((value) => typeof value === "function", "a function");
const isObject = (value) => typeof value === "object" && value !== null;

// As `fetch` takes it: null is none.
function signal(value, name) {
  if (value === null) return undefined;
  if (attempt(abortedOf, value) === undefined) throw wrong(name, value, "an AbortSignal");
  return value;
}

// Whatever `fetch` takes: an object, an array of pairs, a Map, Headers.
function headers(value, name) {
  let pairs;
  try {
    pairs = Array.from(new Headers(value));
  } catch (cause) {
    throw invalid(`\`${name}\` is not what fetch() takes as headers (${cause?.message ?? cause})`, cause);
  }
  if (pairs.some(([header]) => header === "range")) throw invalid(`\`${name}\` has Range, which weightstream sets`);
  return pairs;
}

const CREDENTIALS = ["omit", "same-origin", "include"];
const credentials = (value, name) => {
  if (CREDENTIALS.includes(value)) return value;
  throw wrong(name, value, `one of ${CREDENTIALS.map(shown).join(", ")}${meant(value, CREDENTIALS)}`);
};

const CACHES = ["auto", "opfs", "none"];
const isCache = (value) => ["get", "set", "delete", "keys"].every((method) => typeof value[method] === "function");
const cache = (value, name) => {
  if (CACHES.includes(value) || (isObject(value) && isCache(value))) return value;
  const wanted = `one of ${CACHES.map(shown).join(", ")}, or an object with get, set, delete and keys`;
  throw wrong(name, value, wanted + meant(value, CACHES));
};

// An object of strings, or a Map of them, as pairs.
function strings(value, name) {
  if (!isObject(value)) throw wrong(name, value, "an object of strings");
  const pairs = typeof value[Symbol.iterator] === "function" ? iterated(value, name) : Object.entries(value);
  for (const pair of pairs) {
    const isPair = Array.isArray(pair) && pair.length === 2 && typeof pair[0] === "string";
    if (!isPair) throw wrong(name, value, "an object of strings");
    if (typeof pair[1] !== "string") throw wrong(`${name}[${shown(pair[0])}]`, pair[1], "a string");
  }
  return pairs;
}

function iterated(value, name) {
  try {
    return Array.from(value);
  } catch (cause) {
    throw invalid(`\`${name}\` cannot be iterated over (${cause?.message ?? cause})`, cause);
  }
}

export function names(value, name = "names") {
  const wanted = "an array of names, or another iterable of them";
  if (!isObject(value) || typeof value[Symbol.iterator] !== "function") throw wrong(name, value, wanted);
  const items = iterated(value, name);
  const other = items.find((item) => typeof item !== "string");
  if (other !== undefined || items.includes(undefined)) throw invalid(`\`${name}\` has ${shown(other)} among its names, which must be strings`);
  return items;
}

export const tensorName = (value) => must((name) => typeof name === "string", "the name of a tensor")(value, "name");

function rows(value, name) {
  const isRow = (row) => Number.isInteger(row) && row >= 0 && row <= Number.MAX_SAFE_INTEGER;
  const isList = Array.isArray(value) || (ArrayBuffer.isView(value) && typeof value.length === "number");
  const pair = isList ? Array.from(value) : [];
  if (pair.length !== 2 || !pair.every(isRow) || pair[0] > pair[1]) throw wrong(name, value, "a pair of row numbers, [first, end]");
  return pair;
}

// All bytes of a memory.
function into(value, name) {
  const isView = ArrayBuffer.isView(value);
  const length = isView ? undefined : attempt(lengthOfBuffer, value) ?? attempt(lengthOfShared, value);
  if (!isView && length === undefined) throw wrong(name, value, "an ArrayBuffer, a SharedArrayBuffer or a view of one");
  try {
    return isView ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : new Uint8Array(value, 0, length);
  } catch (cause) {
    throw invalid(`\`${name}\` is detached: its memory was transferred or grown`, cause);
  }
}

// An object of options, each of which is one of `known`. What is undefined is as if it were not there.
function options(known, call = "") {
  return (given, name) => {
    const prefix = name === undefined ? "" : `${name}.`;
    const what = name === undefined ? `the options of ${call}` : `\`${name}\``;
    if (!isObject(given) || typeof given[Symbol.iterator] === "function") throw invalid(`${what} are ${shown(given)}, but must be an object`);
    const read = {};
    for (const option of Object.keys(known)) {
      if (given[option] === undefined) continue;
      read[option] = known[option](given[option], prefix + option);
    }
    for (const option in given) {
      if (hasOwn(known, option) || given[option] === undefined) continue;
      throw invalid(`there is no option \`${prefix}${option}\`${meant(option, Object.keys(known))}`);
    }
    return read;
  };
}

const OPEN = options({
  signal,
  fetch: callable,
  headers,
  credentials,
  onProgress: callable,
  verify: flag,
  concurrency: whole(1, 16),
  coalesceGap: whole(0),
  cache,
  cacheKey: callable,
  maxMemory: whole(0),
  workers: whole(0, 16),
  inWorker: flag,
  digests: options({ tensors: strings, files: strings }),
  retry: options({ attempts: whole(0), baseDelay: whole(0), maxDelay: whole(0), stallTimeout: whole(0) }),
}, "open");
const LOAD_TENSOR = options({ signal, into, rows }, "loadTensor");
const TENSORS = options({ names, signal }, "tensors");
const VERIFY = options({ signal }, "verify");

const optional = (read) => (given) => (given === undefined ? {} : read(given));
export const openOptions = optional(OPEN);
export const tensorOptions = optional(LOAD_TENSOR);
export const verifyOptions = optional(VERIFY);
export const tensorsOptions = optional((given) => {
  if (typeof given !== "string" && typeof given?.[Symbol.iterator] !== "function") return TENSORS(given);
  throw invalid("tensors() takes an object: write tensors({ names: [...] })");
});

// URLs as absolute text, against the page or the worker's script; files with their paths; anything else as it is.
export function sourceOf(source) {
  const url = typeof source === "string" ? source : attempt(hrefOf, source);
  if (url !== undefined) return absolute(url);
  if (attempt(lengthOfBuffer, source) !== undefined) into(source, "source"); // refuses one that is detached
  if (!Array.isArray(source) && attempt(fileCountOf, source) === undefined) return source;
  return Array.from(source, (file) => {
    const name = attempt(fileNameOf, file);
    if (name === undefined) throw invalid(`\`source\` is an array with ${shown(file)}, but must have only Files`);
    return [file, file.webkitRelativePath || name];
  });
}

export function urlOf(url) {
  const text = typeof url === "string" ? url : attempt(hrefOf, url);
  if (text === undefined) throw wrong("url", url, "a URL");
  return absolute(text);
}

function absolute(url) {
  const base = globalThis.document?.baseURI ?? globalThis.location?.href;
  try {
    return new URL(url, base).href;
  } catch (cause) {
    throw invalid(`"${url}" is not a URL`, cause);
  }
}

// A suggestion for what is misspelled, where one is near.
function meant(given, known) {
  if (typeof given !== "string" || given.length > 40) return "";
  const nearest = known.map((word) => [distance(given.toLowerCase(), word.toLowerCase()), word]).sort(([a], [b]) => a - b)[0];
  return nearest && nearest[0] <= 2 ? `: did you mean \`${nearest[1]}\`?` : "";
}

// How many letters must be put in, left out or replaced.
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] !== b[j - 1]));
    row = next;
  }
  return row[b.length];
}
