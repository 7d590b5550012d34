// The elements that reach beyond the window, unless they are in an area that scrolls on its own.
(() => {
  const area = "pre, .table-wrapper, textarea";
  const isCut = (element) => {
    const { right, left, width } = element.getBoundingClientRect();
    return width > 0 && (right > innerWidth + 1 || left < -1) && !element.parentElement.closest(area);
  };
  const wide = [...document.querySelectorAll("main, main *, header, header *")].filter(isCut);
  const overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  return [
    ...wide.map((element) => `${element.tagName} “${element.textContent.trim().slice(0, 60)}”`),
    ...(overflow > 0 ? [`the page is ${overflow} px wider than the window`] : []),
  ];
})()
