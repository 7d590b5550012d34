// Draws extreme values in every chart of the page. Returns the labels that overlap, or leave the window.
async () => {
  const module = (name) => import(new URL(name, location.href).href);
  const names = ["race-chart", "ranges", "steps", "tensor-view", "progress"];
  const [race, ranges, steps, view, progress] = await Promise.all(names.map((name) => module(`./${name}.js`)));
  const part = (selector) => document.querySelector(selector);
  const drawn = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const found = [];

  // The boxes of the texts in these elements, one for each line.
  const boxes = (selector) => {
    const nodes = new Set();
    for (const element of document.querySelectorAll(selector)) {
      const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) nodes.add(walker.currentNode);
    }
    return [...nodes].flatMap((node) => {
      const range = document.createRange();
      range.selectNode(node);
      const lines = [...range.getClientRects()].filter(({ width, height }) => width > 0 && height > 0);
      return lines.map((box) => ({ node, box, text: node.data.trim() }));
    });
  };
  // A box of text is a little higher than its letters.
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
  const check = async (what, selector) => {
    await drawn();
    const all = boxes(selector);
    if (all.length < 2) found.push(`${what}: there are no labels`);
    for (const [index, { node, box, text }] of all.entries()) {
      if (box.right > innerWidth || box.left < 0) found.push(`${what}: “${text}” leaves the window`);
      const others = all.slice(index + 1).filter((other) => other.node !== node && meet(box, other.box));
      found.push(...others.map((other) => `${what}: “${text}” overlaps “${other.text}”`));
    }
  };

  const raceChart = new race.RaceChart(part("#race-chart"));
  const times = [[3.74, 4.54], [4, 4], [0.004, 0.005], [0.01, 590], [7190, 7200], [9.9, 0.3], [59, 36000]];
  for (const [own, other] of times) {
    for (const cut of [undefined, 0.6]) {
      raceChart.begin(["weightstream", "fetch"], cut, 1e-3);
      raceChart.add("weightstream", [own, 1], { ends: true });
      raceChart.add("fetch", [other / 2, 0], { restarts: cut !== undefined });
      await check(`the race ${own}`, "#race-chart :is(.levels li, .times li, .end-label)");
      raceChart.add("fetch", [other, 1], { ends: true });
      await check(`the race ${own} against ${other}`, "#race-chart :is(.levels li, .times li, .end-label)");
    }
  }

  const lanes = new ranges.RangesChart(part("#ranges"));
  const loads = [[1, 1, 1e-5], [4, 23_456_789, 0.9], [12, 123_456_789_012, 43000], [3, 9e14, 7]];
  for (const [files, size, seconds] of loads) {
    const components = [{ storedByteLength: size }];
    const all = Array.from({ length: files }, (_, shard) => ({ name: "a", shard, components }));
    lanes.show(all);
    lanes.begin();
    const whole = all.map(({ shard }) => ({ shard, start: 0, end: size, connection: shard }));
    lanes.add({ type: "tensors", ranges: whole.slice(0, -1).concat({ ...whole.at(-1), end: size / 2 }) });
    lanes.end(seconds);
    lanes.add({ type: "tensor", ranges: whole });
    await check(`${files} lanes`, "#ranges :is(.lane-name, .lane-figures, .times span, .legend li)");
  }

  part("#similarity").hidden = false;
  part("#first-embedding").hidden = false;
  for (const end of [0.5, 900, 3_600_000]) {
    const step = (name, byteLength) => ({
      name, byteLength, begun: end / 9, waits: [[end / 9, end / 3]], prepared: end / 2, ended: end,
    });
    steps.showSteps(part("#steps"), [step("ONNX Runtime Web and tokenizer", 0), step("Layer 6", 7_097_856)], end);
    await check(`steps of ${end} ms`, "#steps :is(.times span, th, td:not(.axis-cell))");
  }

  const panel = new view.TensorView(part("#tensor-view"));
  const name = `${"language_model.".repeat(9)}layers.12.weight`;
  for (const values of [[-3.4e38, 3.4e38, 1], [1e-40, 2e-40, 1.5e-40], [-0.0001234, 0.0001234, 0], [1, 2, 99999]]) {
    const tensor = { name, dtype: "F32", shape: [3], data: new Float32Array(values), components: new Map() };
    const stats = { requests: 0, bytesReceived: 0 };
    await panel.open({ stats, loadTensor: async () => tensor }, { ...tensor, byteLength: 12 });
    await check(`the tensor ${values}`, "#tensor-view");
  }

  const [large, small] = [{ byteLength: 9.87e14, seconds: 1e6 }, { byteLength: 1, seconds: 1e-3 }];
  for (const load of [large, small]) {
    const count = load.byteLength;
    const stats = { requests: count, bytesReceived: count, bytesFromCache: count, wasmMemoryBytes: count };
    progress.showFigures(stats, load, { network: load.seconds, cache: 123_456 });
    await check(`figures of ${count} bytes`, "#figures");
  }
  return found;
}
