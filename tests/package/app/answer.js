// Lets the page around this frame run its check. An error comes with the number of requests that the page's policy has
// blocked.

let blocked = 0;
addEventListener("securitypolicyviolation", ({ effectiveDirective }) => {
  blocked += Number(effectiveDirective === "connect-src");
});

addEventListener("message", async ({ data: { url, matrix }, ports: [port] }) => {
  while (!globalThis.check) await new Promise((resolve) => setTimeout(resolve, 20));
  const report = globalThis.check(url, matrix);
  port.postMessage(await report.catch(({ code, message }) => ({ error: `${code}: ${message}`, blocked })));
});
