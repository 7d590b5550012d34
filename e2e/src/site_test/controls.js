// The controls of the page that a keyboard must reach. The menu of colours is closed.
(() => {
  const all = document.querySelectorAll("a[href], button, input, textarea, [tabindex='0']");
  const name = (element) => element.getAttribute("aria-label") || element.textContent.trim();
  return [...all].filter((element) => element.checkVisibility() && !element.disabled).map(name);
})()
