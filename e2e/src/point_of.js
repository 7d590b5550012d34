// Scrolls an element into view and returns its center, or a message if it cannot be clicked.
async (selector) => {
  const element = document.querySelector(selector);
  if (!element) return "is not there";
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  let place;
  // The page itself may be scrolling. Then the element moves on from where it was brought.
  for (let before; place === undefined || place.top !== before?.top; await frame()) {
    before = place;
    element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    await frame();
    place = element.getBoundingClientRect();
  }
  const [x, y] = [place.left + place.width / 2, place.top + place.height / 2];
  const hit = document.elementFromPoint(x, y);
  return hit && element.contains(hit) ? [x, y] : "is hidden or covered";
}
