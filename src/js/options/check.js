// @ts-check
// How arguments are checked, and how messages show them.
import { invalid } from "../loader/error.js";

/**
 * Checks a value and converts it, or throws an error that shows the name of the option.
 *
 * @template T
 * @typedef {(value: any, name: string) => T} Check
 */

/**
 * A getter of this realm. It works on objects of other frames and windows too, which are not instances of a class of
 * this realm.
 *
 * @param {string} className
 * @param {string | symbol} property
 * @returns {(() => any) | undefined} Nothing if this realm has no such class.
 */
export function getter(className, property) {
  let prototype = /** @type {any} */ (globalThis)[className]?.prototype;
  while (prototype && !Object.hasOwn(prototype, property)) prototype = Object.getPrototypeOf(prototype);
  return prototype && Object.getOwnPropertyDescriptor(prototype, property)?.get;
}

/**
 * The result of a getter; `undefined` if the value is not of its class.
 *
 * @param {(() => any) | undefined} get
 * @param {unknown} value
 */
export function tryGet(get, value) {
  try {
    return get?.call(value);
  } catch {
    return undefined;
  }
}

/**
 * A value as error messages show it.
 *
 * @param {unknown} value
 * @returns {string}
 */
export function shown(value) {
  if (typeof value === "string") return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return "a function";
  if (Array.isArray(value) && value.length > 4) return `an array of ${value.length}`;
  if (Array.isArray(value)) return `[${value.map(shown).join(", ")}]`;
  return typeof value === "object" && value !== null ? Object.prototype.toString.call(value) : String(value);
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {string} expected
 */
export const invalidValue = (name, value, expected) =>
  invalid(`\`${name}\` is ${shown(value)}, but must be ${expected}`);

/**
 * @param {(value: any) => boolean} isValid
 * @param {string} expected
 * @returns {Check<any>}
 */
export const check = (isValid, expected) => (value, name) => {
  if (isValid(value)) return value;
  throw invalidValue(name, value, expected);
};

/**
 * The end of an error message that suggests the nearest known word, if one is similar.
 *
 * @param {unknown} given
 * @param {string[]} known
 */
export function suggestion(given, known) {
  if (typeof given !== "string" || given.length > 40) return "";
  const distances = known.map((word) => editDistance(given.toLowerCase(), word.toLowerCase()));
  const nearest = Math.min(...distances);
  return nearest <= 2 ? `: did you mean \`${known[distances.indexOf(nearest)]}\`?` : "";
}

/**
 * The number of letters to insert, remove or replace (Levenshtein distance).
 *
 * @param {string} a
 * @param {string} b
 */
function editDistance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1] + Number(a[i - 1] !== b[j - 1]);
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, replaced);
    }
    row = next;
  }
  return row[b.length];
}
