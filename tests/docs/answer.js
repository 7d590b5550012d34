// A service worker that answers requests to other hosts, such as https://example.org/model.apr, with the files below
// /sites/ of the test's server. Paths with /private/ need an Authorization header.

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));

addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (url.origin !== location.origin) event.respondWith(answer(event.request, url));
});

async function answer({ method, headers, signal }, { hostname, pathname }) {
  if (pathname.includes("/private/") && !headers.has("Authorization")) return new Response("", { status: 401 });
  const file = await fetch(`/sites/${hostname}${pathname}`, { method, headers, signal });
  // A new response has the URL of the request.
  return new Response(file.body, { status: file.status, headers: file.headers });
}
