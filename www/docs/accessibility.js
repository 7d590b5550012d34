// What keyboards and screen readers need besides the scripts of mdBook.
(() => {
  // A button opens and closes the table of contents. mdBook has a label for its checkbox, which has no focus.
  const checkbox = document.querySelector("#mdbook-sidebar-toggle-anchor");
  document.querySelector("#mdbook-sidebar-toggle").addEventListener("click", () => {
    checkbox.checked = !checkbox.checked;
    checkbox.dispatchEvent(new Event("change"));
    // mdBook hides it when its transition ends, which a closed table of contents that was just opened may not have.
    if (!checkbox.checked) document.querySelector("#mdbook-sidebar").style.display = "none";
  });

  // mdBook gives the texts of results a label, which elements without a role must not have.
  const results = document.querySelector("#mdbook-searchresults");
  new MutationObserver(() => {
    for (const text of results.querySelectorAll(".teaser[aria-label]")) text.removeAttribute("aria-label");
  }).observe(results, { childList: true });

  // Wide tables and long lines scroll: the keyboard reaches those that do.
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  for (const area of document.querySelectorAll("main pre > code, main .table-wrapper")) observer.observe(area);
})();
