// Scrolls an element into view and returns its center, or a message if it cannot be clicked.
(selector) => {
  const element = document.querySelector(selector);
  if (!element) return "is not there";
  element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
  const { left, top, width, height } = element.getBoundingClientRect();
  const [x, y] = [left + width / 2, top + height / 2];
  const hit = document.elementFromPoint(x, y);
  return hit && element.contains(hit) ? [x, y] : "is hidden or covered";
}
