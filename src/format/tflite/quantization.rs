//! The parameters of quantized tensors.

use super::flatbuffer::{Table, Vector};
use crate::error::Result;
use crate::values::budget::Budget;
use crate::values::json::float;
use crate::window::Stop;
use serde_json::{Map, Value, json};

/// The maximum number of scales and zero points that a file has in the attributes of its tensors. Those of vision
/// models have some thousands. Language models can have more than a million, which would take 100 MB as JSON: further
/// ones are stated as the range of the file in which they are.
const MAX_LISTED: u64 = 1 << 17;

/// The name of the method in the attributes.
const METHOD: &str = "tflite";

/// The number of the details of quantization in blocks.
const BLOCKWISE: u8 = 2;

/// The numbers that a file may still list.
#[derive(Clone, Copy)]
pub(super) struct Listed(u64);

impl Default for Listed {
    fn default() -> Self {
        Listed(MAX_LISTED)
    }
}

/// Reads QuantizationParameters; `None` for a tensor that is not quantized.
///
/// # Errors
/// [`Stop::Need`] while bytes are missing; `FORMAT` for an invalid table; `LIMIT` beyond the budget.
pub(super) fn parameters(table: &Table, listed: &mut Listed, budget: &mut Budget) -> Result<Option<Value>, Stop> {
    let (scale, zero_point) = (table.vector(2, 4)?, table.vector(3, 8)?);
    let details = if table.u8(4)? == BLOCKWISE { table.table(5)? } else { None };
    let mut stated = Map::from_iter([("method".to_owned(), METHOD.into())]);
    if let Some(scale) = scale.filter(|scale| scale.count > 0) {
        let number = |bytes: &[u8; 4]| float(f64::from(f32::from_le_bytes(*bytes)));
        add(table, &mut stated, "scale", scale, number, listed, budget)?;
    }
    if let Some(zero_point) = zero_point.filter(|zero_point| zero_point.count > 0) {
        add(
            table,
            &mut stated,
            "zero_point",
            zero_point,
            |bytes: &[u8; 8]| i64::from_le_bytes(*bytes).into(),
            listed,
            budget,
        )?;
    }
    if let Some(details) = details {
        let blocks = json!({
            "scales_tensor": details.u32(0)?.cast_signed(),
            "zero_points_tensor": details.u32(1)?.cast_signed(),
            "block_size": details.u32(2)?.cast_signed(),
        });
        stated.insert("blockwise".to_owned(), blocks);
    }
    if stated.len() == 1 {
        return Ok(None);
    }
    stated.insert("quantized_dimension".to_owned(), table.u32(6)?.cast_signed().into());
    Ok(Some(stated.into()))
}

/// Adds the numbers of a vector: one if all are equal, all of them, or their range.
fn add<const N: usize>(
    table: &Table,
    stated: &mut Map<String, Value>,
    key: &str,
    vector: Vector,
    number: impl Fn(&[u8; N]) -> Value,
    Listed(left): &mut Listed,
    budget: &mut Budget,
) -> Result<(), Stop> {
    let range = vector.range();
    if vector.count > *left {
        stated.insert(format!("{key}_range"), json!([range.start, range.end]));
        return Ok(());
    }
    let (numbers, _) = table.flat().bytes(range)?.as_chunks();
    let numbers = match numbers {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => std::slice::from_ref(first),
        all => all,
    };
    budget.array(numbers.len() as u64)?;
    *left -= numbers.len() as u64;
    stated.insert(key.to_owned(), numbers.iter().map(number).collect());
    Ok(())
}
