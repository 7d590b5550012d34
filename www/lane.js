// @ts-check
// One lane of the chart, on a canvas: slopes over time, and at the right a strip of the bytes that have arrived.

/** @import { Lane, Stroke } from "./ranges.js" */

const STRIP_PX = 6;
const GAP_PX = 6;
// Narrower than the strip, so that a single tensor does not hide the load of the whole model.
const MARK_PX = 3;

/**
 * The time axis of all lanes: how many seconds are as wide as the canvas, and the times of the grid lines.
 *
 * @typedef {{ seconds: number, steps: number[] }} Scale
 */

/** @typedef {{ connections: string[], mark: string, track: string, line: string }} Palette */

/**
 * The width of the time axis.
 *
 * @param {HTMLCanvasElement} canvas
 */
export const widthOf = (canvas) => canvas.clientWidth - STRIP_PX - GAP_PX;

/**
 * Draws the strokes and marks of one file.
 *
 * @param {Lane} lane
 * @param {Scale} scale
 * @param {Palette} palette
 */
export function drawLane({ canvas, length, strokes, marks }, { seconds, steps }, palette) {
  const width = widthOf(canvas);
  const height = canvas.clientHeight;
  if (width <= 0 || height === 0) return;
  const ratio = devicePixelRatio;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);

  const x = (/** @type {number} */ time) => Math.min(time / seconds, 1) * width;
  // The stroke is 2 px wide. This keeps the first and the last stroke inside.
  const y = (/** @type {number} */ byte) => height - 1 - (byte / Math.max(length, 1)) * (height - 2);
  drawFrame(context, steps.map(x), width, height, palette.line);
  for (const slope of slopesOf(strokes)) drawSlope(context, slope, x, y, colourOf(slope[0], palette));

  /** @type {(start: number, end: number, colour: string, thickness?: number) => void} */
  const strip = (start, end, colour, thickness = STRIP_PX) => {
    // Whole pixels, so that there is no seam between neighbours; at least one, so that a small tensor is visible.
    const top = Math.floor((1 - end / Math.max(length, 1)) * height * ratio) / ratio;
    const bottom = Math.ceil((1 - start / Math.max(length, 1)) * height * ratio) / ratio;
    context.fillStyle = colour;
    context.fillRect(canvas.clientWidth - thickness, top, thickness, Math.max(1, bottom - top));
  };
  context.beginPath();
  context.roundRect(canvas.clientWidth - STRIP_PX, 0, STRIP_PX, height, 2);
  context.clip();
  strip(0, length, palette.track);
  for (const stroke of strokes) strip(stroke.start, stroke.end, colourOf(stroke, palette));
  for (const { start, end } of marks) strip(start, end, palette.mark, MARK_PX);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number[]} lines
 * @param {number} width
 * @param {number} height
 * @param {string} colour
 */
function drawFrame(context, lines, width, height, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (const line of [0, ...lines]) {
    context.moveTo(Math.round(line) + 0.5, 0);
    context.lineTo(Math.round(line) + 0.5, height);
  }
  context.moveTo(0, height - 0.5);
  context.lineTo(width, height - 0.5);
  context.stroke();
}

/**
 * Joins strokes that continue each other, in bytes and in time.
 *
 * @param {Stroke[]} strokes
 */
function slopesOf(strokes) {
  /** @type {[Stroke, ...Stroke[]][]} */
  const slopes = [];
  for (const stroke of strokes) {
    const slope = slopes.findLast(([{ connection }]) => connection === stroke.connection);
    const last = slope?.at(-1);
    if (slope && last?.end === stroke.start && last.to === stroke.from) slope.push(stroke);
    else slopes.push([stroke]);
  }
  return slopes;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {[Stroke, ...Stroke[]]} slope
 * @param {(seconds: number) => number} x
 * @param {(byte: number) => number} y
 * @param {string} colour
 */
function drawSlope(context, slope, x, y, colour) {
  const line = new Path2D();
  line.moveTo(x(slope[0].from), y(slope[0].start));
  for (const { end, to } of slope) line.lineTo(x(to), y(end));
  const area = new Path2D(line);
  area.lineTo(x((slope.at(-1) ?? slope[0]).to), y(slope[0].start));
  context.fillStyle = colour;
  context.globalAlpha = 0.14;
  context.fill(area);
  context.globalAlpha = 1;
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.lineCap = "round";
  context.lineJoin = "round";
  context.stroke(line);
}

/**
 * @param {Stroke} stroke
 * @param {Palette} palette
 */
function colourOf({ connection }, { connections }) {
  return connections[connection % connections.length];
}
