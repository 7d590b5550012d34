// Counts the loaders that run in workers. A loader that cannot start a worker silently runs on the page.
globalThis.loadersInWorkers = 0;
globalThis.Worker = class extends Worker {
  constructor(...parameters) {
    super(...parameters);
    this.addEventListener("message", ({ data }) => (loadersInWorkers += Number(data.hasStarted === true)));
  }
};
true
