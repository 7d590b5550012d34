// What is wrong with the links and the preview of the page. A link leads to a page, which is HTML.
async () => {
  const wrong = [];
  const isThere = async (url, type) => {
    const response = await fetch(url);
    const found = response.headers.get("content-type") ?? "";
    if (!response.ok || !found.startsWith(type)) wrong.push(`${url}: status ${response.status}, ${found}`);
  };
  const { documentation } = await (await fetch("demo.json")).json();
  const links = [...document.querySelectorAll("a[href]")].map(({ href }) => href);
  if (links.length === 0) wrong.push("there are no links");
  for (const href of links) {
    if (new URL(href).origin === location.origin) await isThere(href, "text/html");
    else if (!documentation || href !== documentation) wrong.push(`${href} is not known to exist`);
  }
  const content = (property) => document.querySelector(`meta[property="${property}"]`)?.content;
  await isThere(new URL(content("og:image") ?? "missing", location.href).href, "image/");
  for (const property of ["og:title", "og:description", "og:type"]) if (!content(property)) wrong.push(property);
  return wrong;
}
