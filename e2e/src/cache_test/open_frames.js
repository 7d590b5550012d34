// Opens two frames with a script in each. Frames are documents of their own, as tabs are, each with its own module and
// its own worker.
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
