// A service worker that answers requests to other hosts, such as https://example.org/model.apr, with the files below
// /sites/ of the test's server. Paths with /private/ need an Authorization header.

// What the Hugging Face Hub says about every revision of owner/name.
const REPOSITORY = {
  sha: "5f0d1e0a4c3b2a19080706050403020100ffeedd",
  siblings: [{ rfilename: "model.safetensors", size: 1 }, { rfilename: "tokenizer.json", size: 1 }],
};

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));

addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (url.origin !== location.origin) event.respondWith(answer(event.request, url));
});

async function answer({ method, headers, signal }, { hostname, pathname }) {
  if (pathname.includes("/private/") && !headers.has("Authorization")) return new Response("", { status: 401 });
  if (/^\/api\/models\/owner\/name\/revision\/[^/]+$/.test(pathname)) return Response.json(REPOSITORY);
  const file = await fetch(`/sites/${hostname}${pathname}`, { method, headers, signal });
  // A new response has the URL of the request.
  return new Response(file.body, { status: file.status, headers: file.headers });
}
