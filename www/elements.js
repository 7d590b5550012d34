// The few lines of DOM that every part of the page needs.

/** The element with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/** `element("td", { class: "size" }, "90.9 MB")`. Children are nodes or text, never markup: names come from files. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** A list of terms and their values, as `<div><dt><dd></div>` for a `<dl>`. */
export function terms(pairs) {
  return pairs.map(([term, value]) => element("div", {}, element("dt", {}, term), element("dd", {}, value)));
}

/** A name that may break after its dots, slashes and underscores. */
export function breakable(name) {
  return name.split(/(?<=[./_])/).flatMap((part) => [part, element("wbr")]);
}
