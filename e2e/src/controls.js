// The controls of the page that a keyboard must reach, in their order.
(() => {
  const all = document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']");
  const name = (element) => element.id || element.getAttribute("aria-label") || element.textContent.trim();
  return [...all].filter((element) => element.checkVisibility() && !element.disabled).map(name);
})()
