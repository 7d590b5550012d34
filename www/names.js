// @ts-check
// How names of tensors are shown in narrow columns. A name is written in up to two lines. If it is longer, the segments
// that all names with the same beginning share are left out: they do not distinguish it from any other tensor.

/** Lines may break after these, and segments end with them. */
const SEPARATORS = /(?<=[./_:-])/;
const LEFT_OUT = "…";
const LINES = 2;

export class Names {
  /** The segments that follow a beginning. @type {Map<string, Set<string>>} */
  #next = new Map();
  /** @type {readonly string[]} */
  #names;

  /** @param {readonly string[]} names All names of the model. */
  constructor(names) {
    this.#names = names;
    for (const name of names) {
      let beginning = "";
      for (const segment of name.split(SEPARATORS)) {
        const next = this.#next.get(beginning);
        if (next) next.add(segment);
        else this.#next.set(beginning, new Set([segment]));
        beginning += segment;
      }
    }
  }

  /**
   * The segments to show of a name. Different names differ in what is shown of them.
   *
   * @param {string} name
   * @param {number} columns The number of characters in a line.
   */
  segments(name, columns) {
    const all = name.split(SEPARATORS);
    if (linesOf(all, columns) <= LINES) return all;
    /** @type {string[]} */
    const shown = [];
    let beginning = "";
    for (const [index, segment] of all.entries()) {
      const isShared = index > 0 && index < all.length - 1 && this.#next.get(beginning)?.size === 1;
      if (!isShared) shown.push(segment);
      else if (shown.at(-1) !== LEFT_OUT) shown.push(LEFT_OUT);
      beginning += segment;
    }
    return shown;
  }

  /**
   * The number of lines that every name fits into.
   *
   * @param {number} columns
   */
  lines(columns) {
    return this.#names.reduce((most, name) => Math.max(most, linesOf(this.segments(name, columns), columns)), 1);
  }
}

/**
 * The number of lines of a text that breaks between segments, and within those that are longer than a line.
 *
 * @param {string[]} segments
 * @param {number} columns
 */
function linesOf(segments, columns) {
  let lines = 1;
  let used = 0;
  for (const { length } of segments) {
    if (used > 0 && used + length > columns) {
      lines += 1;
      used = 0;
    }
    used += length;
    lines += Math.max(0, Math.ceil(used / columns) - 1);
    if (used > columns) used = used % columns || columns;
  }
  return lines;
}
