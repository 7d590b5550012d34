// Opens restricted pages in frames, which a browser's driver could not ask itself, and passes them the model.

globalThis.checkIn = async (page, isSandboxed, url, matrix) => {
  const frame = document.createElement("iframe");
  if (isSandboxed) frame.sandbox = "allow-scripts";
  frame.src = `restricted/${page}.html`;
  const loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
  document.body.append(frame);
  await loaded;
  const { port1, port2 } = new MessageChannel();
  frame.contentWindow.postMessage({ url, matrix }, "*", [port2]);
  const report = await new Promise((resolve) => (port1.onmessage = ({ data }) => resolve(data)));
  frame.remove();
  return report;
};
