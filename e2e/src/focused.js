// The control that has the focus: its name, and whether its outline, or that of the element it stands for, is visible.
(() => {
  const focused = document.activeElement;
  if (!focused || focused === document.body) return null;
  // A chosen row of the table, and the label of a hidden file input, have the outline of their control.
  const outlined = focused.id === "tensor-table" ? focused.querySelector("tr.active")
    : focused.matches(".unseen") ? focused.nextElementSibling : focused;
  return {
    name: focused.id || focused.getAttribute("aria-label") || focused.textContent.trim(),
    isOutlined: outlined !== null && getComputedStyle(outlined).outlineStyle !== "none",
  };
})()
