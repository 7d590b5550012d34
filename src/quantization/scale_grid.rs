//! Which rows and columns share a scale, from the shapes of codes and scales.

use super::grid::Scales;
use super::numbers::scale_bytes;
use super::stored::{Part, Stored};

/// The scales of codes of this logical shape. `stated` is the block that `config.json` states.
///
/// # Errors
/// What is wrong with the shapes, or ambiguous.
pub(super) fn scales_of(scales: &Part<'_>, shape: &[u64], stated: Option<[u64; 2]>) -> Result<Scales, String> {
    if scale_bytes(scales.dtype).is_none() {
        return Err(format!("its scales are {}", scales.dtype));
    }
    let [.., rows, columns] = shape else { return Err("its codes are not a matrix".to_owned()) };
    let (rows, columns) = (*rows, *columns);
    let matrices = shape.get(..shape.len() - 2).unwrap_or_default();
    let mismatch = || format!("its scales of the shape {:?} do not fit codes of the shape {shape:?}", scales.shape);
    let [of_rows, of_columns] = match scales.shape {
        [] | [1] if matrices.iter().all(|count| *count == 1) => [1, 1],
        [only] if *only == rows && matrices.is_empty() => [*only, 1],
        [leading @ .., rows, columns] if leading == matrices => [*rows, *columns],
        _ => return Err(mismatch()),
    };
    let block = [
        block_of(rows, of_rows, stated.map(|[rows, _]| rows)).ok_or_else(mismatch)?,
        block_of(columns, of_columns, stated.map(|[_, columns]| columns)).ok_or_else(mismatch)?,
    ];
    Ok(Scales { dtype: scales.dtype.clone(), block, count: of_rows.saturating_mul(of_columns), columns: of_columns })
}

/// The number of codes in each of `count` blocks of `length` codes. Without a stated one, it must be clear: that of
/// equal blocks, or a power of two with a smaller last block, if these do not contradict each other.
fn block_of(length: u64, count: u64, stated: Option<u64>) -> Option<u64> {
    if count == 0 || length == 0 {
        return (count == length).then_some(1);
    }
    if count == 1 {
        return Some(length);
    }
    if let Some(stated) = stated.filter(|stated| *stated > 0 && length.div_ceil(*stated) == count) {
        return Some(stated);
    }
    let equal = length.is_multiple_of(count).then(|| length / count);
    let power = length.div_ceil(count).checked_next_power_of_two().filter(|power| length.div_ceil(*power) == count);
    match (equal, power) {
        (Some(equal), Some(power)) if equal != power => None,
        (equal, power) => equal.or(power),
    }
}

/// The block of rows and columns that `config.json` states.
pub(super) fn stated_block(stored: &Stored<'_>) -> Option<[u64; 2]> {
    let block = stored.config?.get(&["weight_block_size"])?.as_array()?;
    match block.as_slice() {
        [rows, columns] => Some([rows.as_u64()?, columns.as_u64()?]),
        _ => None,
    }
}
