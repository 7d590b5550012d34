// URLs that are wrong or that `fetch` does not load, the names of files in the cache, and what a platform lacks.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

export async function tests({ load, one }) {
  const folder = mkdtempSync(join(tmpdir(), "weightstream-"));
  process.env.WEIGHTSTREAM_CACHE = folder;
  process.on("exit", () => rmSync(folder, { recursive: true }));
  const { StreamingLoader, openFile, willFit } = await load("weightstream.node.js");
  const at = (path) => one.origin + path;
  const options = { cache: "none" };
  const part = "part.safetensors";
  const withPartUrl = async (partUrl) => {
    const loader = await StreamingLoader.open(at("/model.safetensors.index.json"), { ...options, partUrl });
    return loader.loadIndex().finally(() => loader.close());
  };

  /** Whether a call rejects with a message that has these parts. */
  const rejects = (call, code, ...parts) => async () => {
    const error = await call().then(() => undefined, (error) => error);
    return (error?.code === code && parts.every((part) => error.message.includes(part))) || String(error);
  };
  const refusesPartUrl = (value, shown) =>
    rejects(() => withPartUrl(() => value), "INVALID_ARGUMENT", "`partUrl`", `"${part}"`, shown);

  /** Runs a call while `fetch` of the platform answers requests of the scheme `app` as an app does. */
  const withApp = (answer, call) => async () => {
    const original = globalThis.fetch;
    const requests = [];
    globalThis.fetch = async (url, init) => {
      if (/^https?:/.test(url)) return original(url, init);
      const range = new Headers(init.headers).get("Range");
      requests.push(range === null ? "whole" : "range");
      return answer(range, init);
    };
    try {
      const outcome = await call();
      return outcome === true ? requests.join() : outcome;
    } finally {
      globalThis.fetch = original;
    }
  };
  const is = (wanted, run) => async () => {
    const found = await run();
    return found === wanted || found;
  };
  const failing = async () => {
    throw new TypeError("fetch failed");
  };
  const whole = async (range) => (range === null ? new Response("the file") : failing());
  const model = async (_, init) => fetchModel(init);
  const fetchModel = (init) => fetch(at("/model"), init);
  const textOf = (source, given) => async () => {
    const file = await openFile(source, { ...options, ...given });
    const text = await file.text();
    file.close();
    return text === "the file" || text;
  };
  const notLoaded = (call) => rejects(call, "NETWORK", "`fetch` does not load this URL here", "the scheme `app`");
  const open = (source, given) => StreamingLoader.open(source, { ...options, ...given });

  /** Whether a model that one URL has cached is counted for another. */
  const isCounted = (first, second, given) => async () => {
    const loader = await StreamingLoader.open(first, given);
    for await (const _ of loader.tensors());
    loader.close();
    const { storage } = await willFit(second, given);
    return storage.needed === 0 || storage.needed;
  };

  return {
    "partUrl must not return null": refusesPartUrl(null, "null"),
    "partUrl must not return a number": refusesPartUrl(1, "1"),
    "partUrl must not return a URL object": refusesPartUrl(new URL("https://a.example/"), "[object URL]"),
    "partUrl must not return a text that is no URL": refusesPartUrl("http://", '"http://"'),
    "an exception of partUrl is the cause": rejects(() => withPartUrl(() => {
      throw new Error("no");
    }), "INVALID_ARGUMENT", "`partUrl` threw an exception"),

    "a URL that fetch does not load is not tried again":
      is("range,whole", withApp(failing, notLoaded(() => open("app://host/m.safetensors")))),
    "a file that fetch does not load is not tried again":
      is("range,whole", withApp(failing, notLoaded(() => openFile("app://host/m", options)))),
    "a part that fetch does not load is not tried again":
      is("range,whole", withApp(failing, notLoaded(() => withPartUrl(() => `app://host/${part}`)))),
    "a part at a file URL is not one of the user": rejects(() => withPartUrl(() => "file:///x"), "NETWORK", "`file`"),
    "a scheme of an app is loaded": is("range", withApp(model, async () => {
      (await open("app://host/m")).close();
      return true;
    })),
    "a scheme of an app needs no ranges": is("range,whole", withApp(whole, textOf("app://host/m"))),
    "a fetch of the caller is tried again": async () => {
      let count = 0;
      const own = async () => (count++ === 0 ? failing() : new Response("the file"));
      return textOf("app://host/m", { fetch: own, retry: { baseDelay: 1 } })();
    },

    "willFit finds what another signature has cached": isCounted(
      at("/model?X-Amz-Signature=1&X-Amz-Date=1"), at("/model?X-Amz-Signature=2&X-Amz-Date=2"), {},
    ),
    "willFit finds what cacheKey names": isCounted(
      at("/model?token=1#a"), at("/model?token=2#b"), { cacheKey: (url) => url.replace(/\?.*/, "?key") },
    ),

    "file() says what the platform lacks": rejects(async () => {
      const file = await openFile(at("/file"), options);
      return file.file().finally(() => file.close());
    }, "UNSUPPORTED", "file() needs an origin private file system", "this platform"),
  };
}
