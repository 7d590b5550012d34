// Chooses an option of a `<select>`, as a visitor does.
(selector, value) => {
  const select = document.querySelector(selector);
  select.value = value;
  if (select.value !== value) throw new Error(`${selector} has no option ${value}`);
  select.dispatchEvent(new Event("change", { bubbles: true }));
}
