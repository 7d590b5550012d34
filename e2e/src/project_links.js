// What is wrong with the links and the preview of the page.
(async () => {
  const wrong = [];
  const isThere = async (url, type) => {
    const response = await fetch(url);
    const found = response.headers.get("content-type") ?? "";
    if (!response.ok || !found.startsWith(type)) wrong.push(`${url}: status ${response.status}, ${found}`);
  };
  const content = (property) => document.querySelector(`meta[property="${property}"]`)?.content;
  await isThere(document.querySelector("#readme").href, "text/");
  await isThere(new URL(content("og:image") ?? "missing", location.href).href, "image/");
  for (const property of ["og:title", "og:description", "og:type"]) if (!content(property)) wrong.push(property);
  const npm = "https://www.npmjs.com/package/weightstream";
  if (!document.querySelector(`nav a[href="${npm}"]`)) wrong.push(`no link to ${npm}`);
  return wrong;
})()
