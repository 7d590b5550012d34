// One lane of the picture, on a canvas: slopes above, and below them the strip of what is here.

const STRIP_PX = 6;
const GAP_PX = 4;

/**
 * Draws the strokes and marks of one file. `scale` is that of all lanes together: how many bytes are as wide as
 * the canvas, how many seconds as tall.
 */
export function drawLane({ canvas, length, strokes, marks }, scale, palette) {
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (width === 0 || height === 0) return;
  const ratio = devicePixelRatio;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);

  const floor = height - STRIP_PX - GAP_PX;
  const x = (byte) => (byte / scale.longest) * width;
  // The stroke is 2 px wide: keep the first and the last inside.
  const y = (seconds) => 1 + Math.min(seconds / scale.seconds, 1) * (floor - 2);

  if (floor > STRIP_PX) {
    drawFrame(context, x(length), floor, palette.line);
    for (const stroke of strokes) drawSlope(context, stroke, x, y, floor, colourOf(stroke, palette));
  }
  const strip = (start, end, colour) => {
    context.fillStyle = colour;
    // At least a pixel: a small tensor of a large file must be seen.
    context.fillRect(x(start), height - STRIP_PX, Math.max(1, x(end) - x(start)), STRIP_PX);
  };
  context.beginPath();
  context.roundRect(0, height - STRIP_PX, x(length), STRIP_PX, 2);
  context.clip();
  strip(0, length, palette.track);
  for (const stroke of strokes) strip(stroke.start, stroke.end, colourOf(stroke, palette));
  for (const { start, end } of marks) strip(start, end, palette.mark);
}

function drawFrame(context, right, floor, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (const quarter of [1, 2, 3]) {
    const at = Math.round((right * quarter) / 4) + 0.5;
    context.moveTo(at, 0);
    context.lineTo(at, floor);
  }
  context.moveTo(0, floor + 0.5);
  context.lineTo(right, floor + 0.5);
  context.stroke();
}

function drawSlope(context, { start, end, from, to }, x, y, floor, colour) {
  context.fillStyle = colour;
  context.globalAlpha = 0.14;
  context.beginPath();
  context.moveTo(x(start), y(from));
  context.lineTo(x(end), y(to));
  context.lineTo(x(end), floor);
  context.lineTo(x(start), floor);
  context.fill();
  context.globalAlpha = 1;
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.lineCap = "round";
  context.beginPath();
  context.moveTo(x(start), y(from));
  context.lineTo(x(end), y(to));
  context.stroke();
}

function colourOf({ connection }, { connections }) {
  return connections[connection % connections.length];
}
