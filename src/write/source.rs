//! The metadata of the model to convert: what its file contains, and what JSON does not express; without what an
//! earlier conversion changed.

use super::formats::formats;
use super::input::Input;
use crate::error::{ErrorKind, Result};
use crate::format::Format;
use crate::index::Metadata;
use crate::output::metadata::{GGUF_FILE_KEYS, named_model};
use crate::output::origin;
use serde_json::Value;
use std::borrow::Cow;
use std::cell::RefCell;

/// The metadata of the source.
pub(super) struct Source<'a> {
    /// The format that it is from: that of the file, or the target if the file was converted from it. Empty for an APR
    /// file that has only the metadata of another format.
    pub(super) format: &'static str,
    pub(super) metadata: Cow<'a, Metadata>,
    /// The start of the record of the conversion: see [`origin`].
    pub(super) record: Metadata,
    pub(super) warnings: Vec<String>,
}

impl<'a> Source<'a> {
    /// The metadata as the file contains it.
    pub(super) fn unchanged(input: &'a dyn Input) -> Self {
        let source = input.metadata();
        Source {
            format: source.format,
            metadata: Cow::Borrowed(&source.metadata),
            record: Metadata::new(),
            warnings: Vec::new(),
        }
    }

    /// The metadata for a file in the format `target`.
    ///
    /// # Errors
    /// Errors of reading the head of the model's first file.
    pub(super) fn of(input: &'a dyn Input, target: &Format) -> Result<Self> {
        let mut source = Source::unchanged(input);
        source.leave_out_of_files();
        if source.format == target.name {
            source.describe(input)?;
            return Ok(source);
        }
        if source.format == "aero" {
            leave_out_of_aero(source.metadata.to_mut());
        }
        source.describe(input)?;
        if source.metadata.contains_key(origin::KEY) {
            let metadata = source.metadata.to_mut();
            origin::restore_given(metadata, source.format);
            // Metadata that the caller gave when the file was converted to APR are APR's own, and stay so.
            let keeps_own = source.format == "apr" && origin::has_own_beside(metadata, target.name);
            if !keeps_own && let Some(format) = origin::restore(metadata, source.format, target.name) {
                source.format = format;
                return Ok(source);
            }
        }
        source.record = origin::take(source.metadata.to_mut());
        if source.format == "apr" {
            match origin::flatten(source.metadata.to_mut()) {
                Some(nested) => source.record.extend(nested),
                None => source.format = "",
            }
        }
        Ok(source)
    }

    /// Removes the keys that describe the files of the source: how it is divided, and their sizes. They would be wrong
    /// in the new files.
    fn leave_out_of_files(&mut self) {
        let format = self.format;
        let is_of_files = |key: &str, value: &Value| match format {
            // The alignment is right for any file that keeps it, and GGUF writes its own.
            "gguf" => key.starts_with("split.") && GGUF_FILE_KEYS.contains(&key),
            // The number in the index of several files; the metadata of a file are texts.
            "safetensors" => key == "total_size" && value.is_number(),
            "apr" => key == "sharding" && value.get("shard_count").is_some(),
            _ => false,
        };
        if self.metadata.iter().any(|(key, value)| is_of_files(key, value)) {
            self.metadata.to_mut().retain(|key, value| !is_of_files(key, value));
        }
    }

    /// Adds what JSON does not express.
    fn describe(&mut self, input: &dyn Input) -> Result<()> {
        let format = formats().find(|format| format.name == input.metadata().format);
        let Some(describe) = format.and_then(Format::writer).and_then(|writer| writer.describe) else { return Ok(()) };
        let described = RefCell::new(Metadata::new());
        let parsed = input.parse_first(&|window| {
            *described.borrow_mut() = describe(window)?;
            Ok(())
        });
        match parsed {
            Err(error) if error.kind == ErrorKind::Unsupported => {
                self.warnings.push(format!("the types of the metadata's values are not kept: {}", error.what));
            }
            parsed => {
                parsed?;
                let described = described.into_inner();
                if !described.is_empty() {
                    self.metadata.to_mut().extend(described);
                }
            }
        }
        Ok(())
    }
}

/// Removes what AERO's reader lists with the metadata, but is not metadata of the model: the file's UUID, descriptors
/// of quantized tensors that say no more than their dtypes, and a name and an architecture that other keys state, too.
fn leave_out_of_aero(metadata: &mut Metadata) {
    let is_uuid = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if metadata.get("uuid").and_then(Value::as_str).is_some_and(is_uuid) {
        metadata.shift_remove("uuid");
    }
    let named = named_model(metadata).map(Value::Object);
    if metadata.get("model").is_some_and(|model| named.as_ref() == Some(model)) {
        metadata.shift_remove("model");
    }
    let is_of_ggml = |descriptor: &Value| descriptor.get("codec").is_some_and(|codec| codec == "ggml");
    let descriptors = metadata.get("quant_descriptors").and_then(Value::as_array);
    if descriptors.is_some_and(|descriptors| descriptors.iter().all(is_of_ggml)) {
        metadata.shift_remove("quant_descriptors");
    }
}
