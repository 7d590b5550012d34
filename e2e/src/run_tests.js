// Runs all exported tests of a module. Returns the failures by test.
async (module) => {
  const results = {};
  for (const [name, test] of Object.entries(await import(module))) {
    results[name] = Array.from(await test().catch((error) => [`${error.stack ?? error}: ${error.code ?? ""}`]));
  }
  return results;
}
