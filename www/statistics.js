// @ts-check
// Statistics of the values of a tensor: minimum, maximum, mean, standard deviation, a histogram and a grid of means.

import { isInteger, readerOf } from "./values.js";

/** @import { TensorData } from "./pkg/weightstream.js" */

/**
 * Counts and sums of all values. The sums are of finite values, relative to `shift`.
 *
 * @typedef {object} Moments
 * @property {number} count
 * @property {number} finite
 * @property {number} nan
 * @property {number} infinite
 * @property {number} zeros
 * @property {number} min
 * @property {number} max
 * @property {number} shift
 * @property {number} sum
 * @property {number} squares
 */

/** @typedef {{ from: number, to: number, bins: number[], outside: number }} Histogram */

/**
 * The means of `width` × `height` cells of a tensor with `rows` × `columns` values. The mean of a cell without finite
 * values is NaN.
 *
 * @typedef {{ rows: number, columns: number, width: number, height: number, means: Float64Array }} Grid
 */

/**
 * @typedef {Omit<Grid, "means"> & { cellOfColumn: Uint32Array, sums: Float64Array, counts: Float64Array }} GridSums
 */

/**
 * @typedef {{ mean: number, std: number, histogram: Histogram | undefined, grid: Grid | undefined }} Derived
 * @typedef {Moments & Derived} Statistics
 */

// How many values are read at a time.
const BLOCK = 1 << 15;
// The page handles events after each slice: 12 ms leave time for a frame.
const SLICE_MS = 12;
const BINS = 64;
// A few distant values would put all others into a single bar.
const HISTOGRAM_DEVIATIONS = 5;
const MAX_GRID = { columns: 160, rows: 112 };

/**
 * Reads all values twice: first for the moments and the grid, then for the histogram, whose ends depend on the moments.
 * The page must be able to read the dtype.
 *
 * @param {string} dtype
 * @param {readonly number[]} shape
 * @param {TensorData} data
 * @param {AbortSignal} signal
 * @returns {Promise<Statistics>}
 */
export async function statisticsOf(dtype, shape, data, signal) {
  const reader = readerOf(dtype);
  if (!reader) throw new TypeError(`values of dtype ${dtype} cannot be read`);
  const { count, read } = reader;
  const total = count(data);
  const grid = makeGrid(shape, total);
  const moments = {
    count: total, finite: 0, nan: 0, infinite: 0, zeros: 0, min: Infinity, max: -Infinity, shift: 0, sum: 0, squares: 0,
  };
  await forEachBlock(total, signal, (first, out) => {
    read(data, first, out);
    addMoments(moments, out);
    addToGrid(grid, first, out);
  });
  const { finite, sum, squares, shift } = moments;
  const mean = finite > 0 ? shift + sum / finite : NaN;
  const std = finite > 0 ? Math.sqrt(Math.max(0, squares / finite - (sum / finite) ** 2)) : NaN;
  const histogram = makeHistogram(moments, mean, std, isInteger(dtype));
  if (histogram) {
    await forEachBlock(total, signal, (first, out) => {
      read(data, first, out);
      addToHistogram(histogram, out);
    });
  }
  return { ...moments, mean, std, histogram, grid: finishGrid(grid) };
}

/**
 * @param {number} total
 * @param {AbortSignal} signal
 * @param {(first: number, out: Float64Array) => void} visit
 */
async function forEachBlock(total, signal, visit) {
  const scratch = new Float64Array(Math.min(BLOCK, total));
  let sliceStartedAt = performance.now();
  for (let first = 0; first < total; first += BLOCK) {
    visit(first, scratch.subarray(0, Math.min(BLOCK, total - first)));
    if (performance.now() - sliceStartedAt > SLICE_MS) {
      await new Promise((resolve) => setTimeout(resolve));
      signal.throwIfAborted();
      sliceStartedAt = performance.now();
    }
  }
}

/**
 * @param {Moments} moments
 * @param {Float64Array} values
 */
function addMoments(moments, values) {
  let { finite, nan, infinite, zeros, min, max, shift, sum, squares } = moments;
  for (const value of values) {
    if (!Number.isFinite(value)) {
      if (Number.isNaN(value)) nan += 1;
      else infinite += 1;
      continue;
    }
    // The sums are relative to the first value: otherwise rounding would hide the small deviation of weights near 1.
    if (finite === 0) shift = value;
    finite += 1;
    if (value === 0) zeros += 1;
    if (value < min) min = value;
    if (value > max) max = value;
    const distance = value - shift;
    sum += distance;
    squares += distance * distance;
  }
  Object.assign(moments, { finite, nan, infinite, zeros, min, max, shift, sum, squares });
}

/**
 * @param {Moments} moments
 * @param {number} mean
 * @param {number} std
 * @param {boolean} whole Whether all values are integers.
 * @returns {Histogram | undefined}
 */
function makeHistogram({ finite, min, max }, mean, std, whole) {
  if (finite === 0 || min === max) return undefined;
  if (whole && max - min < BINS) {
    return { from: min - 0.5, to: max + 0.5, bins: new Array(max - min + 1).fill(0), outside: 0 };
  }
  const from = Math.max(min, mean - HISTOGRAM_DEVIATIONS * std);
  const to = Math.min(max, mean + HISTOGRAM_DEVIATIONS * std);
  return { from, to, bins: new Array(BINS).fill(0), outside: 0 };
}

/**
 * @param {Histogram} histogram
 * @param {Float64Array} values
 */
function addToHistogram(histogram, values) {
  const { from, to, bins } = histogram;
  const perUnit = bins.length / (to - from);
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < from || value > to) histogram.outside += 1;
    else bins[Math.min(bins.length - 1, Math.floor((value - from) * perUnit))] += 1;
  }
}

/**
 * Rows are the outermost dimension, columns all others, in the order of the bytes in memory.
 *
 * @param {readonly number[]} shape
 * @param {number} total
 * @returns {GridSums | undefined}
 */
function makeGrid(shape, total) {
  const rows = shape.length > 1 ? shape[0] : 1;
  const columns = rows > 0 ? total / rows : 0;
  if (total === 0 || !Number.isInteger(columns)) return undefined;
  const height = Math.min(rows, MAX_GRID.rows);
  const width = Math.min(columns, MAX_GRID.columns);
  const cellOfColumn = new Uint32Array(columns);
  for (let column = 0; column < columns; column++) cellOfColumn[column] = Math.floor((column * width) / columns);
  const [sums, counts] = [new Float64Array(width * height), new Float64Array(width * height)];
  return { rows, columns, width, height, cellOfColumn, sums, counts };
}

/**
 * @param {GridSums | undefined} grid
 * @param {number} first
 * @param {Float64Array} values
 */
function addToGrid(grid, first, values) {
  if (!grid) return;
  const { rows, columns, width, height, cellOfColumn, sums, counts } = grid;
  let row = Math.floor(first / columns);
  let column = first % columns;
  let cellOfRow = Math.floor((row * height) / rows) * width;
  for (const value of values) {
    if (Number.isFinite(value)) {
      const cell = cellOfRow + cellOfColumn[column];
      sums[cell] += value;
      counts[cell] += 1;
    }
    column += 1;
    if (column === columns) {
      column = 0;
      row += 1;
      cellOfRow = Math.floor((row * height) / rows) * width;
    }
  }
}

/**
 * @param {GridSums | undefined} grid
 * @returns {Grid | undefined}
 */
function finishGrid(grid) {
  if (!grid) return undefined;
  const { rows, columns, width, height, sums, counts } = grid;
  return { rows, columns, width, height, means: sums.map((sum, cell) => sum / counts[cell]) };
}
