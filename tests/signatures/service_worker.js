// Serves signed files, and opens signed models.
import "/pkg/weightstream.certificates.js";
import { StreamingLoader } from "/pkg/weightstream.js";
import { serve } from "/pkg/weightstream.service-worker.js";

const trust = Object.fromEntries(new URL(location).searchParams);
const trusted = {
  "by-key": { publicKey: trust.publicKey },
  "by-certificate": { certificateChain: trust.certificateChain },
};
const signatures = { "by-key": "model.sig", "by-certificate": "certified.sig" };
const RETRY = { attempts: 1 };

let lastError;
for (const [how, trusts] of Object.entries(trusted)) {
  for (const folder of ["m", "other"]) {
    const start = `/served/${how}/${folder}/`;
    serve({
      match: ({ pathname }) => pathname.startsWith(start),
      source: ({ href }) => href.replace(start, `/models/${folder}/`),
      signature: { url: `/models/${folder}/${signatures[how]}`, ...trusts },
      retry: RETRY,
      cache: "none",
      onError: ({ code }) => (lastError = code),
    });
  }
}

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));

const opened = async (address) => {
  try {
    const url = new URL("certified.sig", address);
    const loader = await StreamingLoader.open(address, {
      signature: { url, certificateChain: trust.certificateChain },
      cache: "none",
    });
    const { verified } = await loader.loadTensor("second");
    loader.close();
    return verified;
  } catch ({ code, message }) {
    return code ?? message;
  }
};

addEventListener("message", async ({ data: { address }, ports: [port] }) =>
  port.postMessage(address ? await opened(address) : lastError));
