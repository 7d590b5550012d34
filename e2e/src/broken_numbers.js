// The numbers on the page that are broken between two lines, also between the number and its unit.
() => {
  const numbers = /[−-]?\d[\d.,]*(?:\s?(?:bytes?|[kMGT]?B(?:\/s)?|ms|s|min|h)\b|\s?%)?/g;
  const broken = [];
  let checked = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.checkVisibility()) continue;
    for (const match of node.data.matchAll(numbers)) {
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
      if (lines.size > 1) broken.push(`“${match[0]}” in “${node.data.trim()}”`);
      checked += 1;
    }
  }
  return { broken, checked };
}
