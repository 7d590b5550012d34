// @ts-check
// The heat map of a tensor: a canvas with one pixel per cell, which the style sheet scales up.

/** @import { Grid } from "./statistics.js" */

// The fraction of cells that are beyond the ends of the scale. Otherwise outliers would leave all other cells pale.
const CLIPPED = 0.02;

/**
 * Draws the means of the cells of a grid and returns the scale. If there are values on both sides of zero, the scale is
 * `signed`: symmetric about zero. Otherwise it goes from the lowest to the highest value.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {Grid} grid
 */
export function drawHeatmap(canvas, grid) {
  const { width, height, means } = grid;
  canvas.width = width;
  canvas.height = height;
  const css = getComputedStyle(canvas);
  const [below, zero, above] = ["--below", "--zero", "--above"].map((name) => parse(css.getPropertyValue(name)));
  const { low, high, signed } = scaleOf(means);
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser cannot draw on a canvas");
  const image = context.createImageData(width, height);
  for (let cell = 0; cell < means.length; cell++) {
    const mean = means[cell];
    if (Number.isNaN(mean)) continue;
    const fraction = high > low ? clamp((mean - low) / (high - low)) : 0.5;
    const [from, to, along] = signed && fraction < 0.5 ? [below, zero, fraction * 2]
      : [zero, above, signed ? fraction * 2 - 1 : fraction];
    for (let channel = 0; channel < 3; channel++) {
      image.data[cell * 4 + channel] = from[channel] + (to[channel] - from[channel]) * along;
    }
    image.data[cell * 4 + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return { low, high, signed };
}

/** @param {Float64Array} means */
function scaleOf(means) {
  const sorted = means.filter((mean) => !Number.isNaN(mean)).sort();
  if (sorted.length === 0) return { low: 0, high: 0, signed: false };
  const clipped = Math.floor((sorted.length * CLIPPED) / 2);
  const low = sorted[clipped];
  const high = sorted[sorted.length - 1 - clipped];
  if (low >= 0 || high <= 0) return { low, high, signed: false };
  const reach = Math.max(-low, high);
  return { low: -reach, high: reach, signed: true };
}

/**
 * The channels of `#rrggbb`.
 *
 * @param {string} colour
 */
function parse(colour) {
  const number = parseInt(colour.trim().slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

/** @param {number} fraction */
function clamp(fraction) {
  return Math.min(1, Math.max(0, fraction));
}
