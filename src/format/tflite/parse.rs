//! Parses the models in a file.

use super::flatbuffer::FlatBuffer;
use super::model::{Model, NotListed, Shared};
use super::sections::Sections;
use crate::index::{Index, Parsed, StatedQuantization, check_tied_tensors};
use crate::values::budget::Budget;
use crate::window::{Stop, Window};
use std::collections::HashMap;

/// The name of the format in the registry.
pub(super) const NAME: &str = "tflite";

/// The version of the schema of a model that states none.
const SCHEMA_VERSION: u32 = 3;

/// The maximum length of the description of a model.
const MAX_DESCRIPTION_BYTES: u64 = 1 << 20;

/// The models of a file, as far as they were read.
struct Reading {
    sections: Sections,
    models: Vec<Model>,
    shared: Shared,
    /// The number of models that were read.
    read: usize,
}

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let Reading { sections, models, shared, .. } = window.resume(
        || {
            let mut sections = Sections::of(window)?;
            let models = std::mem::take(&mut sections.models).into_iter().map(Model::new).collect();
            let budget = Budget::of(window, 0);
            let shared =
                Shared { tensor_count: 0, budget, listed: Default::default(), not_listed: NotListed::default() };
            Ok(Reading { sections, models, shared, read: 0 })
        },
        |reading| {
            while let Some(model) = reading.models.get_mut(reading.read) {
                model.read(window, &mut reading.shared)?;
                reading.read += 1;
            }
            Ok(())
        },
    )?;
    let mut tensors = Vec::new();
    for model in models {
        tensors.extend(model.into_tensors()?);
    }
    check_tied_tensors(&mut tensors, window.file_length())?;
    let Sections { version, mut metadata, mut warnings, .. } = sections;
    let version = match version {
        Some(version) => version,
        None => {
            let root = FlatBuffer::new(window, &(0..u64::MAX)).root()?;
            if let Some(description) = root.text(3, MAX_DESCRIPTION_BYTES)? {
                metadata.insert("description".to_owned(), description.into());
            }
            Some(root.u32(0)?).filter(|version| *version > 0).unwrap_or(SCHEMA_VERSION).to_string()
        }
    };
    warnings.extend(warnings_of(&shared.not_listed));
    Ok(Parsed::File(Index {
        format: NAME,
        version,
        metadata,
        long_arrays: Vec::new(),
        tensors: tensors.into(),
        warnings,
        other_shards: HashMap::new(),
        blocks: Vec::new(),
        quantized: Some(StatedQuantization::Attributes),
    }))
}

fn warnings_of(NotListed { texts, sparse, external }: &NotListed) -> Vec<String> {
    let kinds = [
        (texts, "tensors of texts"),
        (sparse, "sparse tensors"),
        (external, "tensors whose bytes are in buffers outside the model"),
    ];
    let present = kinds.into_iter().filter(|(count, _)| **count > 0);
    present.map(|(count, kind)| format!("not listed: {count} {kind}")).collect()
}
