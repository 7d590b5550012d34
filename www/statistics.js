// What a tensor's values look like: extremes, mean, deviation, a histogram and a small grid of means.

import { isInteger, readerOf } from "./values.js";

const STRETCH = 1 << 15;
// The page answers in between: 12 ms leave room for a frame.
const SLICE_MS = 12;
const BINS = 64;
// A few far values would press all others into one bar.
const HISTOGRAM_DEVIATIONS = 5;
const MAX_GRID = { columns: 160, rows: 112 };

/** Reads all values twice: once for the moments and the grid, then for the histogram, whose ends depend on them. */
export async function statisticsOf(dtype, shape, data, signal) {
  const { count, read } = readerOf(dtype);
  const total = count(data);
  const grid = makeGrid(shape, total);
  const moments = { count: total, finite: 0, nan: 0, infinite: 0, zeros: 0, min: Infinity, max: -Infinity, shift: 0, sum: 0, squares: 0 };
  await forEachStretch(total, signal, (first, out) => {
    read(data, first, out);
    addMoments(moments, out);
    addToGrid(grid, first, out);
  });
  const { finite, sum, squares, shift } = moments;
  const mean = finite > 0 ? shift + sum / finite : NaN;
  const std = finite > 0 ? Math.sqrt(Math.max(0, squares / finite - (sum / finite) ** 2)) : NaN;
  const histogram = makeHistogram(moments, mean, std, isInteger(dtype));
  if (histogram) {
    await forEachStretch(total, signal, (first, out) => {
      read(data, first, out);
      addToHistogram(histogram, out);
    });
  }
  return { ...moments, mean, std, histogram, grid: finishGrid(grid) };
}

async function forEachStretch(total, signal, visit) {
  const scratch = new Float64Array(Math.min(STRETCH, total));
  let sliceStartedAt = performance.now();
  for (let first = 0; first < total; first += STRETCH) {
    visit(first, scratch.subarray(0, Math.min(STRETCH, total - first)));
    if (performance.now() - sliceStartedAt > SLICE_MS) {
      await new Promise((resolve) => setTimeout(resolve));
      signal?.throwIfAborted();
      sliceStartedAt = performance.now();
    }
  }
}

function addMoments(moments, values) {
  let { finite, nan, infinite, zeros, min, max, shift, sum, squares } = moments;
  for (const value of values) {
    if (!Number.isFinite(value)) {
      if (Number.isNaN(value)) nan += 1;
      else infinite += 1;
      continue;
    }
    // Sums around a value of the tensor itself: weights near 1 would lose their small deviation to rounding.
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

function makeHistogram({ finite, min, max }, mean, std, whole) {
  if (finite === 0 || min === max) return undefined;
  if (whole && max - min < BINS) {
    return { from: min - 0.5, to: max + 0.5, bins: new Array(max - min + 1).fill(0), outside: 0 };
  }
  const from = Math.max(min, mean - HISTOGRAM_DEVIATIONS * std);
  const to = Math.min(max, mean + HISTOGRAM_DEVIATIONS * std);
  return { from, to, bins: new Array(BINS).fill(0), outside: 0 };
}

function addToHistogram(histogram, values) {
  const { from, to, bins } = histogram;
  const perUnit = bins.length / (to - from);
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < from || value > to) histogram.outside += 1;
    else bins[Math.min(bins.length - 1, Math.floor((value - from) * perUnit))] += 1;
  }
}

// The outermost dimension runs down, all others across, as the bytes lie in memory.
function makeGrid(shape, total) {
  const rows = shape.length > 1 ? shape[0] : 1;
  const columns = rows > 0 ? total / rows : 0;
  if (total === 0 || !Number.isInteger(columns)) return undefined;
  const height = Math.min(rows, MAX_GRID.rows);
  const width = Math.min(columns, MAX_GRID.columns);
  const cellOfColumn = new Uint32Array(columns);
  for (let column = 0; column < columns; column++) cellOfColumn[column] = Math.floor((column * width) / columns);
  return { rows, columns, width, height, cellOfColumn, sums: new Float64Array(width * height), counts: new Float64Array(width * height) };
}

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

/** Means of the cells; NaN where a cell has no finite value. */
function finishGrid(grid) {
  if (!grid) return undefined;
  const { rows, columns, width, height, sums, counts } = grid;
  return { rows, columns, width, height, means: sums.map((sum, cell) => sum / counts[cell]) };
}
