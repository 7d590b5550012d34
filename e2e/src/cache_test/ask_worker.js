// Starts a shared worker or a service worker and lets it load a model.
async (kind, url) => {
  const start = {
    shared: () => new SharedWorker("/worker.js", { type: "module" }).port,
    service: async () => {
      navigator.serviceWorker.startMessages?.();
      const registration = await navigator.serviceWorker.register("/worker.js", { type: "module" });
      const worker = registration.active ?? registration.installing;
      await navigator.serviceWorker.ready;
      return worker;
    },
  };
  const worker = await start[kind]();
  return new Promise((resolve) => {
    worker.onmessage = navigator.serviceWorker.onmessage = ({ data }) => resolve(data);
    worker.postMessage(url);
  });
}
