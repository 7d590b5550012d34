// The names in the table of tensors: what is shown of them, and those that are cut at the edge of their cell.
async () => {
  // The names are fitted to the window after a frame.
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const cells = [...document.querySelectorAll("tr[data-tensor] td.name")];
  return cells.map((cell) => ({
    name: cell.parentElement.dataset.tensor,
    shown: cell.textContent,
    isCut: cell.scrollWidth > cell.clientWidth || cell.scrollHeight > cell.clientHeight
      || cell.firstElementChild.scrollWidth > cell.clientWidth,
  }));
}
