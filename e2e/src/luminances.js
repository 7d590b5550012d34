// The luminance of background and text, 0 to 255, as the browser paints the colours of the style sheet.
(() => {
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const luminance = (color) => {
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [root, body] = [getComputedStyle(document.documentElement), getComputedStyle(document.body)];
  const isClear = body.backgroundColor === "rgba(0, 0, 0, 0)";
  return [luminance(isClear ? root.backgroundColor : body.backgroundColor), luminance(body.color)];
})()
