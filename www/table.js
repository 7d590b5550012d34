// @ts-check
// The table of tensors, with search, sorting and keyboard navigation. It is fast for ten thousand rows, because only
// visible rows are rendered.

import { element, partOf } from "./elements.js";
import { counted, integer } from "./format.js";
import { Names } from "./names.js";
import { COLUMNS, comparator, matcher, rowOf } from "./rows.js";

/** @import { TensorInfo, Verified } from "./pkg/weightstream.js" */
/** @import { Check, Column } from "./rows.js" */

// Up to this many rows are all rendered, so that the browser's own search finds them.
const MAX_WHOLE = 300;
const ROWS_BEYOND_VIEW = 10;
// The number of characters whose width is measured.
const PROBE = 20;
// The characters of a name in a line, while the table is not visible.
const DEFAULT_COLUMNS = 40;

export class TensorTable {
  #table;
  #viewport;
  #search;
  #count;
  #choose;
  /** @type {readonly TensorInfo[]} */
  #tensors = [];
  /** @type {TensorInfo[]} The tensors that match the search, sorted. */
  #rows = [];
  /** @type {Map<string, Check>} How each loaded tensor was verified. */
  #verified = new Map();
  /** @type {Exclude<Verified, null> | undefined} What has verified every file as a whole. */
  #ofFiles;
  #names = new Names([]);
  /** The number of characters of a name in a line. */
  #columns = 0;
  /** @type {{ column: Column | undefined, descending: boolean }} */
  #sort = { column: undefined, descending: false };
  #active = 0;
  /** @type {string | undefined} */
  #chosen;
  #rendered = { first: 0, end: 0 };
  #rowHeight = 40;

  /**
   * `choose` is called for a row that is clicked, or chosen with the keyboard.
   *
   * @param {object} parts
   * @param {HTMLTableElement} parts.table
   * @param {HTMLInputElement} parts.search
   * @param {HTMLElement} parts.count
   * @param {(tensor: TensorInfo) => void} parts.choose
   */
  constructor({ table, search, count, choose }) {
    this.#table = table;
    this.#viewport = /** @type {HTMLElement} */ (table.parentElement);
    this.#search = search;
    this.#count = count;
    this.#choose = choose;
    const headings = COLUMNS.map((column, index) => this.#heading(column, index));
    partOf(table, "thead").append(element("tr", { role: "row" }, ...headings));
    search.addEventListener("input", () => this.#arrange());
    search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") this.#table.focus();
    });
    this.#viewport.addEventListener("scroll", () => this.#render(), { passive: true });
    new ResizeObserver(() => {
      this.#fitNames();
      this.#render(true);
    }).observe(this.#viewport);
    table.tBodies[0].addEventListener("click", (event) => {
      const row = event.target instanceof Element && event.target.closest("tr[data-tensor]");
      if (row) this.#enter(Number(row.ariaRowIndex) - 2);
    });
    table.addEventListener("keydown", (event) => this.#navigate(event));
  }

  /**
   * Shows the tensors of a newly opened model.
   *
   * @param {readonly TensorInfo[]} tensors
   */
  show(tensors) {
    this.#tensors = tensors;
    this.#names = new Names(tensors.map(({ name }) => name));
    this.#verified = new Map();
    this.#ofFiles = undefined;
    this.#chosen = undefined;
    this.#search.value = "";
    this.#sort = { column: undefined, descending: false };
    this.#fitNames();
    this.#arrange();
  }

  /**
   * Marks a tensor as loaded. Once every file was verified as a whole, a tensor without a checksum of its own stays
   * verified.
   *
   * @param {string} name
   * @param {Verified} verified
   */
  mark(name, verified) {
    const algorithm = verified ?? this.#ofFiles;
    this.#setCheck(name, algorithm ? { algorithm, isOfFile: verified === null } : null);
  }

  /**
   * Marks the tensors without a checksum of their own, after every file was verified as a whole.
   *
   * @param {Exclude<Verified, null>} algorithm
   */
  markFiles(algorithm) {
    this.#ofFiles = algorithm;
    for (const [name, check] of this.#verified) {
      if (check === null) this.#setCheck(name, { algorithm, isOfFile: true });
    }
  }

  /**
   * @param {string} name
   * @param {Check} check
   */
  #setCheck(name, check) {
    this.#verified.set(name, check);
    const row = this.#body.querySelector(`tr[data-tensor="${CSS.escape(name)}"]`);
    if (row) row.replaceWith(this.#row(Number(row.ariaRowIndex) - 2));
  }

  /** Determines how many characters of a name fit into a line, and how many lines each row has. */
  #fitNames() {
    const probe = element("span", { class: "probe" }, "0".repeat(PROBE));
    const cell = element("td", { class: "name", role: "gridcell" }, probe);
    const row = element("tr", { role: "row", "data-tensor": "" }, cell);
    this.#body.append(row);
    const style = getComputedStyle(cell);
    const room = cell.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const columns = Math.floor((room / probe.getBoundingClientRect().width) * PROBE);
    row.remove();
    // The table has no size while the details are closed.
    this.#columns = Number.isFinite(columns) && columns > 0 ? columns : DEFAULT_COLUMNS;
    this.#table.style.setProperty("--name-lines", String(this.#names.lines(this.#columns)));
  }

  get #body() {
    return partOf(this.#table, "tbody", HTMLTableSectionElement);
  }

  #arrange() {
    const matches = matcher(this.#search.value);
    this.#rows = this.#tensors.filter(matches);
    const { column, descending } = this.#sort;
    if (column) this.#rows.sort(comparator(column, descending, this.#verified));
    this.#active = 0;
    this.#viewport.scrollTop = 0;
    this.#table.setAttribute("aria-rowcount", String(this.#rows.length + 1));
    partOf(this.#viewport, ".nothing").hidden = this.#rows.length > 0;
    this.#count.textContent = this.#rows.length === this.#tensors.length
      ? counted(this.#tensors.length, "tensor")
      : `${integer(this.#rows.length)} of ${counted(this.#tensors.length, "tensor")}`;
    for (const heading of this.#table.querySelectorAll("th")) {
      const sorted = heading.dataset.column === column;
      heading.ariaSort = sorted ? (descending ? "descending" : "ascending") : "none";
    }
    this.#render(true);
  }

  /** Renders the visible rows; with `force`, also if they are rendered already. */
  #render(force = false) {
    let [first, end] = [0, this.#rows.length];
    if (end > MAX_WHOLE) {
      const { scrollTop, clientHeight } = this.#viewport;
      first = Math.max(0, Math.floor(scrollTop / this.#rowHeight) - ROWS_BEYOND_VIEW);
      end = Math.min(end, Math.ceil((scrollTop + clientHeight) / this.#rowHeight) + ROWS_BEYOND_VIEW);
    }
    if (!force && first === this.#rendered.first && end === this.#rendered.end) return;
    this.#rendered = { first, end };
    const rows = [];
    for (let index = first; index < end; index++) rows.push(this.#row(index));
    this.#body.replaceChildren(this.#spacer(first), ...rows, this.#spacer(this.#rows.length - end));
    this.#markActive();
    const height = rows[0]?.offsetHeight;
    if (height && height !== this.#rowHeight) {
      this.#rowHeight = height;
      this.#render(true);
    }
  }

  /** @param {number} index */
  #row(index) {
    const tensor = this.#rows[index];
    const row = rowOf(tensor, this.#names.segments(tensor.name, this.#columns), this.#verified.get(tensor.name));
    row.id = `row-${index}`;
    row.ariaRowIndex = String(index + 2);
    row.ariaSelected = String(tensor.name === this.#chosen);
    row.classList.toggle("active", index === this.#active);
    return row;
  }

  /** @param {number} rows */
  #spacer(rows) {
    return element("tr", { class: "spacer", "aria-hidden": "true", style: `height: ${rows * this.#rowHeight}px` });
  }

  /**
   * @param {{ key: Column, label: string }} column
   * @param {number} index
   */
  #heading({ key, label }, index) {
    const button = element("button", { type: "button" }, label);
    button.addEventListener("click", () => {
      const { column, descending } = this.#sort;
      // Ascending, descending, then in file order again.
      this.#sort = column !== key ? { column: key, descending: false }
        : descending ? { column: undefined, descending: false } : { column: key, descending: true };
      this.#arrange();
    });
    const attributes = { role: "columnheader", class: key, "data-column": key, "aria-colindex": index + 1 };
    return element("th", attributes, button);
  }

  /** @param {number} index */
  #enter(index) {
    const tensor = this.#rows[index];
    if (!tensor) return;
    this.#chosen = tensor.name;
    this.#move(index);
    for (const row of this.#body.rows) {
      if (row.dataset.tensor !== undefined) row.ariaSelected = String(row.dataset.tensor === this.#chosen);
    }
    this.#choose(tensor);
  }

  /** @param {KeyboardEvent} event */
  #navigate(event) {
    if (event.target !== this.#table || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.#viewport.clientHeight / this.#rowHeight) - 2);
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.#move(this.#active + steps[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.#enter(this.#active);
    else return;
    event.preventDefault();
  }

  /** @param {number} index */
  #move(index) {
    this.#active = Math.max(0, Math.min(this.#rows.length - 1, index));
    const head = partOf(this.#table, "thead").offsetHeight;
    const top = this.#active * this.#rowHeight;
    const { scrollTop, clientHeight } = this.#viewport;
    if (top < scrollTop) this.#viewport.scrollTop = top;
    else if (top + this.#rowHeight + head > scrollTop + clientHeight) {
      this.#viewport.scrollTop = top + this.#rowHeight + head - clientHeight;
    }
    this.#render();
    this.#markActive();
  }

  // The table keeps the focus and refers to the active row, because rows are removed as it scrolls.
  #markActive() {
    const body = this.#body;
    body.querySelector("tr.active")?.classList.remove("active");
    const row = body.querySelector(`#row-${this.#active}`);
    row?.classList.add("active");
    if (row) this.#table.setAttribute("aria-activedescendant", row.id);
    else this.#table.removeAttribute("aria-activedescendant");
  }
}
