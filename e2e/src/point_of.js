// Scrolls an element into view and returns its center, or a message if it cannot be clicked.
async (selector) => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  let element, place;
  // The page itself may be scrolling. Then the element moves on from where it was brought. It may also replace it.
  for (let before; place === undefined || !element.isConnected || place.top !== before?.top; await frame()) {
    before = place;
    element = document.querySelector(selector);
    if (!element) return "is not there";
    element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    await frame();
    place = element.getBoundingClientRect();
  }
  const [x, y] = [place.left + place.width / 2, place.top + place.height / 2];
  const hit = document.elementFromPoint(x, y);
  if (hit && element.contains(hit)) return [x, y];
  return hit ? `is covered by ${hit.cloneNode().outerHTML} at ${x}, ${y}` : `is outside of the window, at ${x}, ${y}`;
}
