// @ts-check
// One lane of the chart, on a canvas: slopes at the top, and below them a strip of the bytes that have arrived.

/** @import { Lane, Stroke } from "./ranges.js" */

const STRIP_PX = 6;
const GAP_PX = 4;
// Thinner than the strip, so that a single tensor does not hide the load of the whole model.
const MARK_PX = 3;

/**
 * The scale of all lanes: how many bytes are as wide as the canvas, how many seconds as high, and how many bytes are
 * between two grid lines.
 *
 * @typedef {{ longest: number, seconds: number, step: number }} Scale
 */

/** @typedef {{ connections: string[], mark: string, track: string, line: string }} Palette */

/**
 * Draws the strokes and marks of one file.
 *
 * @param {Lane} lane
 * @param {Scale} scale
 * @param {Palette} palette
 */
export function drawLane({ canvas, length, strokes, marks }, scale, palette) {
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (width === 0 || height === 0) return;
  const ratio = devicePixelRatio;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);

  const floor = height - STRIP_PX - GAP_PX;
  const x = (/** @type {number} */ byte) => (byte / scale.longest) * width;
  // The stroke is 2 px wide. This keeps the first and the last stroke inside.
  const y = (/** @type {number} */ seconds) => 1 + Math.min(seconds / scale.seconds, 1) * (floor - 2);

  if (floor > STRIP_PX) {
    drawFrame(context, x(length), x(scale.step), floor, palette.line);
    for (const slope of slopesOf(strokes)) drawSlope(context, slope, x, y, floor, colourOf(slope[0], palette));
  }
  /** @type {(start: number, end: number, colour: string, thickness?: number) => void} */
  const strip = (start, end, colour, thickness = STRIP_PX) => {
    // Whole pixels, so that there is no seam between neighbours; at least one, so that a small tensor is visible.
    const left = Math.floor(x(start) * ratio) / ratio;
    const right = Math.ceil(x(end) * ratio) / ratio;
    context.fillStyle = colour;
    context.fillRect(left, height - thickness, Math.max(1, right - left), thickness);
  };
  context.beginPath();
  context.roundRect(0, height - STRIP_PX, x(length), STRIP_PX, 2);
  context.clip();
  strip(0, length, palette.track);
  for (const stroke of strokes) strip(stroke.start, stroke.end, colourOf(stroke, palette));
  for (const { start, end } of marks) strip(start, end, palette.mark, MARK_PX);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} right
 * @param {number} step
 * @param {number} floor
 * @param {string} colour
 */
function drawFrame(context, right, step, floor, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = 0; at < right; at += step) {
    context.moveTo(Math.round(at) + 0.5, 0);
    context.lineTo(Math.round(at) + 0.5, floor);
  }
  context.moveTo(0, floor + 0.5);
  context.lineTo(right, floor + 0.5);
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
 * @param {(byte: number) => number} x
 * @param {(seconds: number) => number} y
 * @param {number} floor
 * @param {string} colour
 */
function drawSlope(context, slope, x, y, floor, colour) {
  const line = new Path2D();
  line.moveTo(x(slope[0].start), y(slope[0].from));
  for (const { end, to } of slope) line.lineTo(x(end), y(to));
  const area = new Path2D(line);
  area.lineTo(x((slope.at(-1) ?? slope[0]).end), floor);
  area.lineTo(x(slope[0].start), floor);
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
