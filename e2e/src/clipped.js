// The texts of the page that are cut at the edge of their element, or of the window.
(() => {
  const cells = "#tensor-table :is(th button, td, td span), " +
    "#steps :is(th, td), .results :is(th, td), .figures :is(dt, dd), .lanes span, " +
    ".metadata :is(dt, dd), .numbers :is(dt, dd), button, summary";
  const isCut = (element) => {
    const { right, width } = element.getBoundingClientRect();
    const overflows = element.scrollWidth > Math.max(element.clientWidth, Math.ceil(width));
    return width > 0 && (overflows || right > innerWidth + 1);
  };
  const cut = [...document.querySelectorAll(cells)].filter(isCut);
  const overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  return [
    ...cut.map((element) => `“${element.textContent}” (${element.scrollWidth} in ${element.clientWidth} px)`),
    ...(overflow > 0 ? [`the page is ${overflow} px wider than the window`] : []),
  ];
})()
