// Expectations. Each exported test of the other modules resolves to an array with a message for each failed
// expectation.

export * from "./server.js";

export const { LoadError, clearCache, openFile } = await import("/pkg/weightstream.js");
export const { createFetch } = await import("/pkg/weightstream.fetch.js");

export const RETRY = { attempts: 3, baseDelay: 1, stallTimeout: 2000 };

// Collects a message for each failed expectation.
export class Failures extends Array {
  same(what, found, wanted) {
    const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
    if (a !== b) this.push(`${what}: ${a}, not ${b}`);
  }

  async rejects(what, promise, ...wanted) {
    const found = await Promise.race([
      Promise.resolve(promise).then(() => "no error", (error) => `${error?.code ?? error?.name}: ${error?.message}`),
      new Promise((resolve) => setTimeout(resolve, 10_000, "still pending")),
    ]);
    if (!wanted.every((part) => found.includes(part))) this.push(`${what}: ${found}, not ${wanted.join(" and ")}`);
  }
}

export const hex = async (bytes) =>
  Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)), (byte) => byte.toString(16).padStart(2, "0"))
    .join("");

// Resolves after pending callbacks have run.
export const tick = () => new Promise((resolve) => setTimeout(resolve, 50));

export const collect = async (stream) => new Uint8Array(await new Response(stream).arrayBuffer());
