//! Checks the numbers of values and indices, and the lengths that components of other layouts claim.

use super::element_bytes;
use crate::dtype::element_count;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Component, Layout};

/// The number of values that any shape may have: tools also write tensors in COO that have several values at one place.
const FEW_VALUES: u64 = 4096;

/// Checks the counts of values and indices of a sparse tensor. `lengths` are the decoded lengths of its components, as
/// far as they are known.
///
/// # Errors
/// `FORMAT` if a count does not match the shape or the others, if there are many more values than the shape has
/// elements, or if a component does not have whole elements.
pub(crate) fn check_counts(
    layout: &Layout,
    shape: &[u64],
    components: &[Component],
    lengths: &[Option<u64>],
) -> Result<()> {
    let (index_role, each) = match (layout, shape) {
        (Layout::SparseCsr, [_, _]) => ("indices", 1),
        (Layout::SparseCsr, _) => {
            return Err(malformed(format!("its layout is sparse_csr, which does not allow the shape {shape:?}")));
        }
        (Layout::SparseCoo, _) => ("coords", shape.len() as u64),
        _ => return check_claims(shape, components, lengths),
    };
    // What a small shape needs is known before anything is decoded.
    let most = element_count(shape)?;
    let (mut values, mut indices) = (None, None);
    for (component, length) in components.iter().zip(lengths) {
        let (Some(bytes), Some(length)) = (element_bytes(component)?, *length) else { continue };
        if !length.is_multiple_of(bytes) {
            let Component { role, dtype, range, .. } = component;
            let what = format!("`{role}` has {length} bytes, which are not whole elements of {dtype}");
            return Err(malformed(what).at(range.clone()));
        }
        let count = length / bytes;
        match &*component.role {
            "values" => values = Some(count),
            "indptr" => {
                let needed = shape.first().map_or(1, |rows| rows.saturating_add(1));
                if count != needed {
                    return Err(malformed(format!("`indptr` has {count} elements, but its tensor needs {needed}")));
                }
            }
            role if role == index_role => indices = Some(count),
            _ => {}
        }
    }
    if let Some(count) =
        values.max(indices.map(|indices| indices / each.max(1))).filter(|count| *count > most.max(FEW_VALUES))
    {
        return Err(malformed(format!("it has {count} values, but its shape {shape:?} has only {most} elements")));
    }
    match (values, indices) {
        (Some(values), Some(indices)) if values.checked_mul(each) != Some(indices) => {
            Err(malformed(format!("it has {values} values but {indices} {index_role}; each needs {each}")))
        }
        _ => Ok(()),
    }
}

/// The decoded bytes that a compressed component of an unknown layout or dtype may have besides those for each element:
/// tables, such as codebooks.
const OTHER_BYTES: u64 = 16 << 20;

/// The decoded bytes that such a component may have for each element of the shape. Prevents a few kilobytes that
/// describe a small tensor from being decoded to gigabytes.
const OTHER_BYTES_PER_ELEMENT: u64 = 64;

/// Checks the decoded lengths that compressed components claim, if the layout does not determine them.
fn check_claims(shape: &[u64], components: &[Component], lengths: &[Option<u64>]) -> Result<()> {
    let most = element_count(shape)?.saturating_mul(OTHER_BYTES_PER_ELEMENT).saturating_add(OTHER_BYTES);
    for (component, length) in components.iter().zip(lengths) {
        let Component { role, range, encoding, .. } = component;
        if let Some(length) = length.filter(|length| *length > most && !encoding.keeps_positions()) {
            let what =
                format!("`{role}` claims to decode to {length} bytes; the limit for the shape {shape:?} is {most}");
            return Err(Error::new(ErrorKind::Limit, what).at(range.clone()));
        }
    }
    Ok(())
}
