// Measures all kernels in interleaved rounds, each for long enough for the coarse clock of the page.
async (rounds) => {
  const { default: start, kernelNames, kernelBytes, runKernel } = await import("/kernels/kernels.js");
  await start({ module_or_path: new URL("/kernels/kernels_bg.wasm", location.href) });
  const all = kernelNames().map((name, index) => ({
    name, index, bytes: kernelBytes(index), gigabytesPerSecond: [],
  }));
  const ms = (index, times) => {
    const start = performance.now();
    runKernel(index, times);
    return performance.now() - start;
  };
  for (const kernel of all) {
    kernel.times = 1;
    while (ms(kernel.index, kernel.times) < 20) kernel.times *= 2; // which also makes V8 optimize it
  }
  for (let round = 0; round < rounds; round++) {
    for (const { index, bytes, times, gigabytesPerSecond } of all) {
      gigabytesPerSecond.push(bytes * times / ms(index, times) / 1e6);
      await new Promise((resolve) => setTimeout(resolve));
    }
  }
  return all;
}
