// One visit: a page that computes with a model. `visit` has the time from the navigation to the first output, `settle`
// waits until everything is cached.
const { app, model, patience } = Object.fromEntries(new URLSearchParams(location.search));

// A user who sees an error reloads the page.
const MAX_ATTEMPTS = 3;

async function compute() {
  const errors = [];
  for (;;) {
    try {
      const { outputs, settle } = await import(`./${app}.js`);
      const values = await Promise.race([outputs(model), impatience()]);
      globalThis.settle = settle;
      return { ms: performance.now(), errors, values };
    } catch (error) {
      errors.push(String(error));
      if (errors.length === MAX_ATTEMPTS) return { ms: performance.now(), errors, values: {} };
    }
  }
}

// transformers.js does not notice when it cannot load external data: its call never ends.
function impatience() {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`no output within ${patience} s`)), patience * 1000);
  });
}

globalThis.visit = await compute();
