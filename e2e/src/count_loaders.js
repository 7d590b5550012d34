// Counts the loaders in workers: a loader that cannot be in a worker is silently on the page.
globalThis.loadersInWorkers = 0;
globalThis.Worker = class extends Worker {
  constructor(...parameters) {
    super(...parameters);
    this.addEventListener("message", ({ data }) => (loadersInWorkers += Number(data.hasStarted === true)));
  }
};
true
