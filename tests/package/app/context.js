// Runs the check in a dedicated, shared or service worker, and replies with the report.

import { StreamingLoader, cachedBytes, clearCache } from "../node_modules/weightstream/weightstream.js";
import { check } from "./check.js";

async function answer({ data: { url, matrix }, ports: [port] }) {
  const report = check({ StreamingLoader, cachedBytes, clearCache }, url, matrix);
  port.postMessage(await report.catch((error) => ({ error: error.stack })));
}

globalThis.onmessage = answer;
globalThis.onconnect = ({ ports: [port] }) => (port.onmessage = answer);
globalThis.onactivate = (event) => event.waitUntil(globalThis.clients.claim());
