// Evaluates an expression in the page and passes its value, or what it throws, to WebDriver.
const [expression, done] = arguments;
const value = (async () => JSON.stringify(await window.eval(`(${expression})`)) ?? null)();
value.then((value) => done({ value }), (error) => done({ thrown: String(error) }));
