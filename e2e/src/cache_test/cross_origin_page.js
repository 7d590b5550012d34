// Opens a frame for each URL. `run` evaluates an expression in one of them, and `shared` has the files of all.
async (urls) => {
  window.shared = new Map();
  const frames = [];
  let ready = () => {};
  addEventListener("message", ({ data: { isReady, sha256, blob }, ports: [port] }) => {
    if (isReady) return ready();
    if (blob) shared.set(sha256, blob);
    port.postMessage(shared.get(sha256));
  });
  window.run = (number, expression) => new Promise((resolve, reject) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data: { value, failure } }) => (failure ? reject(new Error(failure)) : resolve(value));
    frames[number].contentWindow.postMessage(expression, "*", [port2]);
  });
  for (const url of urls) {
    const frame = document.createElement("iframe");
    frame.src = url;
    await new Promise((resolve) => {
      ready = resolve;
      document.body.append(frame);
    });
    frames.push(frame);
  }
}
