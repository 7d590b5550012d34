// The middle of an element, after scrolling it into view: what a person would click. Otherwise why there is none.
(selector) => {
  const element = document.querySelector(selector);
  if (!element) return "is not there";
  element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
  const { left, top, width, height } = element.getBoundingClientRect();
  const [x, y] = [left + width / 2, top + height / 2];
  const hit = document.elementFromPoint(x, y);
  return hit && element.contains(hit) ? [x, y] : "is hidden or covered";
}
