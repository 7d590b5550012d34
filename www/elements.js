// @ts-check
// The DOM functions that every part of the page uses.

/**
 * @template {HTMLElement} T
 * @typedef {new () => T} ElementClass
 */

/**
 * The element with this id, which must be of this class.
 *
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @param {ElementClass<T>} [type]
 * @returns {T}
 */
export function byId(id, type) {
  return partOf(document, `#${id}`, type);
}

/**
 * The first descendant that matches a selector, which must be of this class.
 *
 * @template {HTMLElement} [T=HTMLElement]
 * @param {ParentNode} parent
 * @param {string} selector
 * @param {ElementClass<T>} [type]
 * @returns {T}
 */
export function partOf(parent, selector, type) {
  const found = parent.querySelector(selector);
  if (found instanceof (type ?? HTMLElement)) return /** @type {T} */ (found);
  throw new TypeError(`the page has no element ${selector}`);
}

/**
 * Creates an element: `element("td", { class: "size" }, "90.9 MB")`. Children are nodes or text, never markup, because
 * names come from files.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number | boolean | undefined>} [attributes]
 * @param {(Node | string)[]} children
 */
export function element(tag, attributes = {}, ...children) {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) created.setAttribute(name, value === true ? "" : String(value));
  }
  created.append(...children);
  return created;
}

/**
 * Pairs of a term and its value for a `<dl>`, each as `<div><dt><dd></div>`.
 *
 * @param {[term: Node | string, value: Node | string][]} pairs
 */
export function terms(pairs) {
  return pairs.map(([term, value]) => element("div", {}, element("dt", {}, term), element("dd", {}, value)));
}

/**
 * A name with possible line breaks after its dots, slashes and underscores.
 *
 * @param {string} name
 * @returns {(Node | string)[]}
 */
export function breakable(name) {
  return name.split(/(?<=[./_])/).flatMap((part) => [part, element("wbr")]);
}

/**
 * Scrolls to a panel that is below the screen: the model, or on a narrow screen the tensor.
 *
 * @param {HTMLElement} panel
 * @param {HTMLElement} [top] What becomes the top of the screen.
 */
export function bringIntoView(panel, top = panel) {
  if (panel.getBoundingClientRect().top > innerHeight * 0.6) top.scrollIntoView({ block: "start" });
}
