//! Parses a file.

use super::keras;
use super::source::Work;
use super::superblock::{SIGNATURE, Superblock};
use super::walk::Walk;
use crate::error::{Error, ErrorKind};
use crate::index::{Index, Metadata, Parsed, check_tied_tensors};
use crate::values::budget::Budget;
use crate::window::{Stop, Window};
use std::collections::HashMap;
use std::ops::Range;

/// The name of the format in the registry.
pub(super) const NAME: &str = "hdf5";

/// What was read so far.
struct Reading {
    range: Range<u64>,
    documents: Metadata,
    walk: Walk,
}

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let length = window.whole_length()?;
    let work = Work::new(length);
    let Reading { range, documents, walk } = window.resume(
        || {
            let mut budget = Budget::of(window, length);
            let (range, documents) = match window.get(0..SIGNATURE.len() as u64)? == SIGNATURE {
                true => (0..length, Metadata::new()),
                false => keras::weights(window, &mut budget)?,
            };
            let root = Superblock::read(window, &range, &work)?.root;
            Ok(Reading { range, documents, walk: Walk::new(root, budget) })
        },
        |reading| reading.walk.visit_all(Superblock::read(window, &reading.range, &work)?.source),
    )?;
    let version = Superblock::read(window, &range, &work)?.version;
    let Walk { mut tensors, mut metadata, refused, .. } = walk;
    if let (Some((reason, name)), true) = (refused.first(), tensors.is_empty()) {
        let what = format!("no dataset of the file can be read: {name} {reason}");
        let advice = "Write the weights with `model.save_weights`, or datasets without chunks and filters, and without \
                      `libver=\"latest\"`.";
        return Err(Error::new(ErrorKind::Unsupported, what).advise(advice).into());
    }
    check_tied_tensors(&mut tensors, Some(length))?;
    metadata.extend(documents);
    Ok(Parsed::File(Index {
        format: NAME,
        version: version.to_string(),
        metadata,
        long_arrays: Vec::new(),
        tensors: tensors.into(),
        warnings: refused.warnings(),
        other_shards: HashMap::new(),
        blocks: Vec::new(),
        quantized: None,
    }))
}
