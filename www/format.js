// @ts-check
// How this page formats numbers. Sizes are decimal, as in file listings: 1 MB is 1,000,000 bytes. Lines do not break
// between a number and its unit.

const SPACE = "\u00a0";
const whole = new Intl.NumberFormat("en");
const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

/**
 * `90.9 MB`: three digits and a unit; `–` for an unknown number.
 *
 * @param {number | undefined} count
 */
export function bytes(count) {
  if (count === undefined) return "–";
  let unit = 0;
  while (count >= 999.5 && unit < UNITS.length - 1) {
    count /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
  return `${count.toFixed(digits)}${SPACE}${count === 1 && unit === 0 ? "byte" : UNITS[unit]}`;
}

/**
 * `30,522`.
 *
 * @param {number} count
 */
export function integer(count) {
  return whole.format(count);
}

/**
 * `1 tensor`, `103 tensors`.
 *
 * @param {number} count
 * @param {string} noun
 */
export function counted(count, noun) {
  return `${whole.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * `34 ms`, `1.93 s`, `2 min 5 s`.
 *
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)}${SPACE}ms`;
  if (seconds < 9.995) return `${seconds.toFixed(2)}${SPACE}s`;
  if (seconds < 59.95) return `${seconds.toFixed(1)}${SPACE}s`;
  const rounded = Math.round(seconds);
  if (rounded < 3600) return `${Math.floor(rounded / 60)}${SPACE}min ${rounded % 60}${SPACE}s`;
  return `${Math.floor(rounded / 3600)}${SPACE}h ${Math.floor((rounded % 3600) / 60)}${SPACE}min`;
}

/**
 * An estimate, rounded up so that it does not flicker: `4 s`, `2 min`.
 *
 * @param {number} seconds
 */
export function roughly(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.ceil(seconds))}${SPACE}s`;
  if (seconds < 3600) return `${Math.ceil(seconds / 60)}${SPACE}min`;
  return `${(seconds / 3600).toFixed(1)}${SPACE}h`;
}

/**
 * A share of 0.6 is `60 %`.
 *
 * @param {number} share
 */
export function percent(share) {
  return `${Math.round(share * 100)}${SPACE}%`;
}

/**
 * `384 × 1536`, or `scalar`. A long shape may break after a sign.
 *
 * @param {readonly number[]} dimensions
 */
export function shape(dimensions) {
  return dimensions.length === 0 ? "scalar" : dimensions.join(`${SPACE}× `);
}

/**
 * A value of a tensor: four significant digits, with an exponent only if it is shorter.
 *
 * @param {number} number
 */
export function value(number) {
  if (number === 0) return "0";
  if (!Number.isFinite(number)) return String(number);
  const magnitude = Math.abs(number);
  if (Number.isInteger(number) && magnitude < 1e6) return minus(whole.format(number));
  if (magnitude >= 1e-3 && magnitude < 1e5) return minus(String(Number(number.toPrecision(4))));
  return minus(number.toExponential(2));
}

/**
 * Uses the typographic minus, which is as wide as a digit.
 *
 * @param {string} text
 */
function minus(text) {
  return text.replaceAll("-", "−");
}
