// Answers requests for /…/remote/?url=<URL of a file> with the file at that URL.
import { serve } from "./node_modules/weightstream/weightstream.service-worker.js";

serve({
  match: (url) => url.pathname.endsWith("/remote/"),
  source: (url) => new URL(url.searchParams.get("url"), url),
  onError: (error) => console.warn(error.message),
});

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
