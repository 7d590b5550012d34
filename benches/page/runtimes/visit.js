// One visit: a page that computes with a model. `visit` has the time from the navigation to the first output, `settle`
// waits until everything is cached.
const { app, model } = Object.fromEntries(new URLSearchParams(location.search));

// A user who sees an error reloads the page.
const MAX_ATTEMPTS = 3;

async function compute() {
  const errors = [];
  for (;;) {
    try {
      const { outputs, settle } = await import(`./${app}.js`);
      const values = await outputs(model);
      globalThis.settle = settle;
      return { ms: performance.now(), errors, values };
    } catch (error) {
      errors.push(String(error));
      if (errors.length === MAX_ATTEMPTS) return { ms: performance.now(), errors, values: {} };
    }
  }
}

globalThis.visit = await compute();
