// The table of tensors: searched, sorted, walked by keyboard, and fast for ten thousand rows,
// because only those in view exist.

import { element } from "./elements.js";
import { counted, integer } from "./format.js";
import { COLUMNS, comparator, matcher, rowOf } from "./rows.js";

// Fewer rows than these are all made, so that the browser's own search finds them.
const MAX_WHOLE = 300;
const ROWS_BEYOND_VIEW = 10;

export class TensorTable {
  #table;
  #viewport;
  #search;
  #count;
  #choose;
  #tensors = [];
  #rows = [];
  #verified = new Map();
  #sort = { column: undefined, descending: false };
  #active = 0;
  #chosen;
  #made = { first: 0, end: 0 };
  #rowHeight = 40;

  /** `choose(tensor)` is called for the row that is clicked, or entered. */
  constructor({ table, search, count, choose }) {
    this.#table = table;
    this.#viewport = table.parentElement;
    this.#search = search;
    this.#count = count;
    this.#choose = choose;
    table.tHead.append(element("tr", { role: "row" }, ...COLUMNS.map((column, index) => this.#heading(column, index))));
    search.addEventListener("input", () => this.#arrange());
    search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") this.#table.focus();
    });
    this.#viewport.addEventListener("scroll", () => this.#render(), { passive: true });
    new ResizeObserver(() => this.#render(true)).observe(this.#viewport);
    table.tBodies[0].addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-tensor]");
      if (row) this.#enter(Number(row.ariaRowIndex) - 2);
    });
    table.addEventListener("keydown", (event) => this.#walk(event));
  }

  /** The tensors of a newly opened model. */
  show(tensors) {
    this.#tensors = tensors;
    this.#verified = new Map();
    this.#chosen = undefined;
    this.#search.value = "";
    this.#sort = { column: undefined, descending: false };
    this.#arrange();
  }

  /** A tensor was loaded: `verified` is how it was checked, or null. */
  mark(name, verified) {
    this.#verified.set(name, verified);
    const row = this.#table.tBodies[0].querySelector(`tr[data-tensor="${CSS.escape(name)}"]`);
    if (row) row.replaceWith(this.#row(Number(row.ariaRowIndex) - 2));
  }

  /** Every file was checked as a whole, by this algorithm: so was each tensor that has no checksum of its own. */
  markFiles(algorithm) {
    for (const [name, verified] of this.#verified) if (verified === null) this.mark(name, `${algorithm} of file`);
  }

  #arrange() {
    const matches = matcher(this.#search.value);
    this.#rows = this.#tensors.filter(matches);
    const { column, descending } = this.#sort;
    if (column) this.#rows.sort(comparator(column, descending, this.#verified));
    this.#active = 0;
    this.#viewport.scrollTop = 0;
    this.#table.setAttribute("aria-rowcount", this.#rows.length + 1);
    this.#viewport.querySelector(".nothing").hidden = this.#rows.length > 0;
    this.#count.textContent = this.#rows.length === this.#tensors.length
      ? counted(this.#tensors.length, "tensor")
      : `${integer(this.#rows.length)} of ${counted(this.#tensors.length, "tensor")}`;
    for (const heading of this.#table.tHead.rows[0].cells) {
      const sorted = heading.dataset.column === column;
      heading.ariaSort = sorted ? (descending ? "descending" : "ascending") : "none";
    }
    this.#render(true);
  }

  /** Makes the rows in view, where they are not there already. */
  #render(anew = false) {
    const body = this.#table.tBodies[0];
    let [first, end] = [0, this.#rows.length];
    if (end > MAX_WHOLE) {
      const { scrollTop, clientHeight } = this.#viewport;
      first = Math.max(0, Math.floor(scrollTop / this.#rowHeight) - ROWS_BEYOND_VIEW);
      end = Math.min(end, Math.ceil((scrollTop + clientHeight) / this.#rowHeight) + ROWS_BEYOND_VIEW);
    }
    if (!anew && first === this.#made.first && end === this.#made.end) return;
    this.#made = { first, end };
    const rows = [];
    for (let index = first; index < end; index++) rows.push(this.#row(index));
    body.replaceChildren(this.#spacer(first), ...rows, this.#spacer(this.#rows.length - end));
    this.#pointAtActive();
    const height = rows[0]?.offsetHeight;
    if (height && height !== this.#rowHeight) {
      this.#rowHeight = height;
      this.#render(true);
    }
  }

  #row(index) {
    const tensor = this.#rows[index];
    const row = rowOf(tensor, this.#verified.get(tensor.name));
    row.id = `row-${index}`;
    row.ariaRowIndex = String(index + 2);
    row.ariaSelected = String(tensor.name === this.#chosen);
    row.classList.toggle("active", index === this.#active);
    return row;
  }

  #spacer(rows) {
    return element("tr", { class: "spacer", "aria-hidden": "true", style: `height: ${rows * this.#rowHeight}px` });
  }

  #heading({ key, label }, index) {
    const button = element("button", { type: "button" }, label);
    button.addEventListener("click", () => {
      const { column, descending } = this.#sort;
      // Up, down, then the order of the file again.
      this.#sort = column !== key ? { column: key, descending: false }
        : descending ? { column: undefined, descending: false } : { column: key, descending: true };
      this.#arrange();
    });
    return element("th", { role: "columnheader", class: key, "data-column": key, "aria-colindex": index + 1 }, button);
  }

  #enter(index) {
    const tensor = this.#rows[index];
    if (!tensor) return;
    this.#chosen = tensor.name;
    this.#move(index);
    for (const row of this.#table.tBodies[0].rows) {
      if (row.dataset.tensor !== undefined) row.ariaSelected = String(row.dataset.tensor === this.#chosen);
    }
    this.#choose(tensor);
  }

  #walk(event) {
    if (event.target !== this.#table || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.#viewport.clientHeight / this.#rowHeight) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.#move(this.#active + steps[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.#enter(this.#active);
    else return;
    event.preventDefault();
  }

  #move(index) {
    this.#active = Math.max(0, Math.min(this.#rows.length - 1, index));
    const head = this.#table.tHead.offsetHeight;
    const top = this.#active * this.#rowHeight;
    const { scrollTop, clientHeight } = this.#viewport;
    if (top < scrollTop) this.#viewport.scrollTop = top;
    else if (top + this.#rowHeight + head > scrollTop + clientHeight) {
      this.#viewport.scrollTop = top + this.#rowHeight + head - clientHeight;
    }
    this.#render();
    this.#pointAtActive();
  }

  // The table keeps the focus and points at a row: rows come and go as it scrolls.
  #pointAtActive() {
    const body = this.#table.tBodies[0];
    body.querySelector("tr.active")?.classList.remove("active");
    const row = body.querySelector(`#row-${this.#active}`);
    row?.classList.add("active");
    if (row) this.#table.setAttribute("aria-activedescendant", row.id);
    else this.#table.removeAttribute("aria-activedescendant");
  }
}
