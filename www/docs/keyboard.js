// What the keyboard needs besides the scripts of mdBook.
(() => {
  // A button opens and closes the table of contents. mdBook has a label for its checkbox, which has no focus.
  const checkbox = document.querySelector("#mdbook-sidebar-toggle-anchor");
  document.querySelector("#mdbook-sidebar-toggle").addEventListener("click", () => {
    checkbox.checked = !checkbox.checked;
    checkbox.dispatchEvent(new Event("change"));
  });

  // Wide tables and long lines scroll: the keyboard reaches those that do.
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  for (const area of document.querySelectorAll("main pre > code, main .table-wrapper")) observer.observe(area);
})();
