// Lets the page around this frame run its check.

addEventListener("message", async ({ data: { url, matrix }, ports: [port] }) => {
  while (!globalThis.check) await new Promise((resolve) => setTimeout(resolve, 20));
  const report = globalThis.check(url, matrix);
  port.postMessage(await report.catch(({ code, message }) => ({ error: `${code}: ${message}` })));
});
