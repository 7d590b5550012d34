// Starts each kind of worker with `context.js`, and passes it the model.

const SCRIPT = new URL("context.js", import.meta.url);

const starts = {
  dedicated: () => new Worker(SCRIPT, { type: "module" }),
  shared() {
    const { port } = new SharedWorker(SCRIPT, { type: "module" });
    port.start();
    return port;
  },
  async service() {
    await navigator.serviceWorker.register(SCRIPT, { type: "module" });
    return (await navigator.serviceWorker.ready).active;
  },
};

globalThis.checkIn = async (kind, url, matrix) => {
  const worker = await starts[kind]();
  const { port1, port2 } = new MessageChannel();
  worker.postMessage({ url, matrix }, [port2]);
  return new Promise((resolve) => (port1.onmessage = ({ data }) => resolve(data)));
};
