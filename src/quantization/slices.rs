//! Which slices or blocks along one dimension of a tensor share a scale.

use super::grid::{Scales, Stack};
use crate::dtype::{Dtype, element_count};
use crate::index::matrix_of;

/// The scales of a tensor as a stack of matrices with this many rows.
pub(super) struct Slices {
    pub(super) rows: u64,
    pub(super) grid: Scales,
    pub(super) stack: Stack,
}

impl Slices {
    /// What each scale is for, by the shapes of codes and scales: one for all, for each slice along the axis, or for
    /// each block along it. `None` if shapes do not match; `Some(None)` for what a [`Grid`] cannot have.
    pub(super) fn of([codes, scales]: [&[u64]; 2], dtype: &Dtype, axis: usize, block: u64) -> Option<Option<Self>> {
        let [rows, columns] = matrix_of(codes).ok()?;
        let of = |rows: u64, block: [u64; 2], count: u64, columns: u64| {
            let grid = Scales { dtype: dtype.clone(), block, count, columns };
            Some(Some(Slices { rows, grid, stack: Stack::Own }))
        };
        if matches!(scales, [] | [1]) && block == 0 {
            return of(rows, [rows.max(1), columns.max(1)], 1, 1);
        }
        let dim = *codes.get(axis)?;
        // The dimension has the columns. That of a vector has the rows.
        let is_last = axis + 1 == codes.len() && axis > 0;
        if block == 0 {
            if scales != [dim] {
                return None;
            }
            if is_last {
                return of(rows, [rows.max(1), 1], columns, columns);
            }
            let inner = element_count(codes.get(axis + 1..codes.len() - 1).unwrap_or_default()).ok()?;
            let slices = of(dim.checked_mul(inner)?, [inner.max(1), columns.max(1)], dim, 1)?;
            return Some(slices.map(|slices| Slices { stack: Stack::Shared, ..slices }));
        }
        let is_divided = |(at, (own, of_scales)): (usize, (&u64, &u64))| {
            if at == axis { own.div_ceil(block) == *of_scales } else { own == of_scales }
        };
        let dims = codes.iter().zip(scales);
        if codes.len() != scales.len() || !dims.enumerate().all(is_divided) {
            return None;
        }
        match codes.len() - axis {
            1 if is_last => {
                let blocks = columns.div_ceil(block);
                of(rows, [1, block], rows.checked_mul(blocks)?, blocks)
            }
            1 | 2 => of(dim, [block, 1], dim.div_ceil(block).checked_mul(columns)?, columns),
            _ => Some(None),
        }
    }
}
