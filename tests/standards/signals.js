// Calls that have ended leave no listener on their signal, and calls of what is closed settle as they must.

import { getEventListeners } from "node:events";
import { rejection } from "./fetch_cases.js";

const CALLS = 50;

export async function tests({ load, one }) {
  const { StreamingLoader, openFile } = await load("weightstream.node.js");
  const { createFetch } = await load("weightstream.fetch.js");
  const at = (path) => one.origin + path;
  const options = { cache: "none", retry: { attempts: 1, baseDelay: 1 } };
  const fetch = createFetch(options);

  /** Whether many calls leave no listener. */
  const leavesNone = (call) => async () => {
    const { signal } = new AbortController();
    for (let count = 0; count < CALLS; count++) await call(signal);
    await new Promise((resolve) => setTimeout(resolve)); // the module removes its own in a task
    const left = getEventListeners(signal, "abort").length;
    return left === 0 || `${left} listeners are left`;
  };

  const withFile = (use) => leavesNone(async (signal) => {
    const file = await openFile(at("/file"), { ...options, signal });
    await use(file, signal);
    file.close();
  });
  const withLoader = (use, given) => leavesNone(async (signal) => {
    const loader = await StreamingLoader.open(at("/model"), { ...options, ...given, signal });
    await use(loader, signal);
    loader.close();
  });
  const read = async (stream) => new Response(stream).arrayBuffer();
  const cancelled = async (stream) => {
    const reader = stream.getReader();
    await reader.read();
    await reader.cancel();
  };
  const code = (promise) => promise.then(() => "no error", (error) => error?.code ?? String(error));
  const is = (wanted, run) => async () => {
    const found = JSON.stringify(await run());
    return found === JSON.stringify(wanted) || found;
  };
  const opened = () => openFile(at("/file"), options);
  const loaderOf = (given, path = "/model") => StreamingLoader.open(at(path), { ...options, ...given });

  /** The results of `next()` that waits for bytes, and of `return()`. */
  const returned = (given) => async () => {
    const loader = await loaderOf(given, "/endless-model");
    const tensors = loader.tensors();
    await tensors.next();
    const pending = tensors.next();
    await new Promise((resolve) => setTimeout(resolve, 20));
    const ended = await tensors.return("value");
    const outcome = [await pending, ended, await tensors.next()];
    loader.close();
    return outcome;
  };
  const DONE = { done: true };

  return {
    "openFile leaves no listener": withFile(() => {}),
    "file.stream leaves no listener": withFile((file, signal) => read(file.stream({ signal }))),
    "file.stream that is cancelled leaves no listener": withFile((file, signal) => cancelled(file.stream({ signal }))),
    "file.bytes leaves no listener": withFile((file, signal) => file.bytes(5, 10, { signal })),
    "file.response leaves no listener": withFile((file) => file.response().arrayBuffer()),
    "a lazy Blob leaves no listener": withFile((file) => file.blob().slice(5, 70_000).arrayBuffer()),
    "createFetch leaves no listener": leavesNone(async (signal) =>
      (await fetch(at("/file"), { signal })).arrayBuffer()),
    "createFetch with a range leaves no listener": leavesNone(async (signal) =>
      (await fetch(at("/file"), { signal, headers: { Range: "bytes=5-9" } })).arrayBuffer()),
    "createFetch that is cancelled leaves no listener": leavesNone(async (signal) =>
      cancelled((await fetch(at("/file"), { signal })).body)),
    "createFetch of a missing file leaves no listener": leavesNone(async (signal) => fetch(at("/missing"), { signal })),
    "createFetch that fails leaves no listener": leavesNone((signal) => rejection(fetch(at("/broken"), { signal }))),
    "open leaves no listener": withLoader(() => {}),
    "open in a worker leaves no listener": withLoader(() => {}, { inWorker: true }),
    "loadTensor leaves no listener": withLoader((loader, signal) => loader.loadTensor("b", { signal })),
    "loadTensor in a worker leaves no listener":
      withLoader((loader, signal) => loader.loadTensor("b", { signal }), { inWorker: true }),
    "tensors leaves no listener": withLoader(async (loader, signal) => {
      for await (const _ of loader.tensors({ signal }));
    }),
    "tensors in a worker leaves no listener": withLoader(async (loader, signal) => {
      for await (const _ of loader.tensors({ signal }));
    }, { inWorker: true }),
    "tensors that end early leave no listener": withLoader(async (loader, signal) => {
      for await (const _ of loader.tensors({ signal })) break;
    }),
    "toBlob leaves no listener": withLoader(async (loader) => cancelled((await loader.toBlob()).stream())),

    "return() ends a next() that waits": is([DONE, { value: "value", done: true }, DONE], returned()),
    "return() ends a next() that waits for a worker":
      is([DONE, { value: "value", done: true }, DONE], returned({ inWorker: true })),
    "file() rejects after close()": is(["a promise", "CLOSED"], async () => {
      const file = await opened();
      file.close();
      const stored = file.file();
      return [stored instanceof Promise && "a promise", await code(stored)];
    }),
    "file() rejects without a length": is("UNSUPPORTED", async () => {
      const file = await openFile(at("/chunked"), options);
      return code(file.file());
    }),
    ...Object.fromEntries([undefined, true].map((inWorker) => [
      `toBlob() rejects after close()${inWorker ? " in a worker" : ""}`,
      is(["CLOSED", "CLOSED", "CLOSED"], async () => {
        const loader = await loaderOf({ inWorker });
        const early = loader.toBlob();
        await loader.toBlob();
        loader.close();
        const later = loader.toBlob();
        return Promise.all([early, later, loader.toBlob()].map((blob) => code(Promise.resolve(blob))));
      }),
    ])),
  };
}
