// The control that has the focus: its name, and whether it is visible, with an outline.
(() => {
  const focused = document.activeElement;
  if (!focused || focused === document.body) return null;
  const { top, bottom, left, right, width } = focused.getBoundingClientRect();
  const isInWindow = bottom > 0 && top < innerHeight && right > 0 && left < innerWidth && width > 0;
  return {
    name: focused.getAttribute("aria-label") || focused.textContent.trim(),
    isVisible: isInWindow && getComputedStyle(focused).outlineStyle !== "none",
  };
})()
