// Opens two frames and evaluates a script in each. Like tabs, frames are separate documents, each with its own module
// instance and worker.
async (script) => {
  window.tabs = [];
  for (let i = 0; i < 2; i++) {
    const frame = document.createElement("iframe");
    await new Promise((resolve) => {
      frame.onload = resolve;
      frame.src = `/?${i}`;
      document.body.append(frame);
    });
    await frame.contentWindow.eval(script);
    tabs.push(frame.contentWindow);
  }
}
