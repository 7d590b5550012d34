// Runs one exported test of a module. Returns its failures as JSON.
async (module, test, argument) =>
  JSON.stringify(await (await import(module))[test](argument).catch((error) => [error.stack]))
