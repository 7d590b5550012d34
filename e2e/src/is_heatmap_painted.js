// Whether the heat map has more than a few colours.
(() => {
  const canvas = document.querySelector("#heatmap");
  if (!canvas?.width || !canvas.height) return false;
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size > 9;
})()
