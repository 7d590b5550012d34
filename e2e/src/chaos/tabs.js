async (count, script) => {
  window.tabs = [];
  for (let i = 0; i < count; i++) {
    const frame = document.createElement("iframe");
    await new Promise((resolve) => { frame.onload = resolve; frame.src = "/?" + i; document.body.append(frame); });
    await frame.contentWindow.eval(script);
    tabs.push(frame.contentWindow);
  }
}
