//! The TensorFlow Lite models in a file: the file itself, or sections of a `.litertlm`.

use super::flatbuffer::{FlatBuffer, Table};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::fields::Fields;
use crate::format::foreign::first_name_in_zip;
use crate::window::{Stop, Window};
use crate::zip::{Archive, Method};
use serde_json::{Map, Value, json};
use std::ops::Range;

/// The identifier of a TensorFlow Lite model, at [`IDENTIFIER_AT`].
const IDENTIFIER: &[u8] = b"TFL3";
const IDENTIFIER_AT: usize = 4;

/// The magic of a `.task`, a ZIP archive.
const ZIP: &[u8] = b"PK\x03\x04";

/// The magic of a `.litertlm`.
const LITERTLM: &[u8] = b"LITERTLM";

/// The bytes up to the end of the identifier of a model.
const MIN_MODEL_BYTES: u64 = 8;

/// The version of a `.task`, which states none.
const TASK_VERSION: &str = "1";

/// The bytes before the FlatBuffer of a `.litertlm`: the magic, the version, padding, and the end of the FlatBuffer.
const HEADER_BYTES: u64 = 32;

/// The limit of the specification for the header of a `.litertlm` is one block of 16 KiB. Some tools write more
/// entries.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// The maximum number of sections. Files have one for each model of a pipeline, and tokenizers.
const MAX_SECTIONS: u64 = 256;

/// The maximum length of a key or a text in the header.
const MAX_TEXT_BYTES: u64 = 64 << 10;

/// The number of the type of texts in the union of values.
const STRING_VALUE: u8 = 9;

/// The types of sections, by their numbers.
const TYPES: [&str; 9] = [
    "NONE",
    "GenericBinaryData",
    "Deprecated",
    "TFLiteModel",
    "SP_Tokenizer",
    "LlmMetadataProto",
    "HF_Tokenizer_Zlib",
    "TFLiteWeights",
    "ExecutorMetadataProto",
];
const MODEL: u8 = 3;
const WEIGHTS: u8 = 7;

/// The models in a file.
pub(super) struct Sections {
    /// The version of a `.litertlm`; `None` for a file that is a model itself.
    pub(super) version: Option<String>,
    /// The ranges of the models, and what precedes the names of their tensors.
    pub(super) models: Vec<(String, Range<u64>)>,
    pub(super) metadata: Map<String, Value>,
    pub(super) warnings: Vec<String>,
}

/// Whether the file is a model, or contains some. The first member of a `.task` is a model.
pub(super) fn recognises(head: &[u8]) -> bool {
    let is_model = head.get(IDENTIFIER_AT..).is_some_and(|rest| rest.starts_with(IDENTIFIER));
    is_model || head.starts_with(LITERTLM) || is_task(head)
}

fn is_task(head: &[u8]) -> bool {
    first_name_in_zip(head).is_some_and(|name| name.ends_with(b".tflite") || name.starts_with(b"TF_LITE_"))
}

impl Sections {
    /// Finds the models.
    ///
    /// # Errors
    /// [`Stop::Need`] while bytes are missing; `UNSUPPORTED` for another major version; `FORMAT` and `LIMIT` for an
    /// invalid header.
    pub(super) fn of(window: &Window) -> Result<Self, Stop> {
        if window.get(0..8)?.starts_with(ZIP) {
            return Sections::of_task(window);
        }
        if window.get(0..8)? != LITERTLM {
            let models = vec![(String::new(), 0..u64::MAX)];
            return Ok(Sections { version: None, models, metadata: Map::new(), warnings: Vec::new() });
        }
        let mut fields = Fields::new(window.get(8..HEADER_BYTES)?, 8, "the header");
        let (major, minor, patch) = (fields.u32()?, fields.u32()?, fields.u32()?);
        fields.u32()?;
        let end = fields.u64()?;
        if major != 1 {
            let what = format!("version {major} of LiteRT-LM; weightstream reads version 1");
            return Err(Error::new(ErrorKind::Unsupported, what).at(8..12).into());
        }
        if !(HEADER_BYTES..=MAX_HEADER_BYTES).contains(&end) {
            return Err(malformed(format!("the header ends at byte {end}")).at(24..32).into());
        }
        let root = FlatBuffer::new(window, &(HEADER_BYTES..end)).root()?;
        let mut sections = Sections {
            version: Some(major.to_string()),
            models: Vec::new(),
            metadata: Map::from_iter([("litertlm_version".to_owned(), format!("{major}.{minor}.{patch}").into())]),
            warnings: Vec::new(),
        };
        sections.read(root)?;
        Ok(sections)
    }

    /// The members of a `.task` that are models: their names are the prefixes.
    fn of_task(window: &Window) -> Result<Self, Stop> {
        let archive = Archive::read(window)?;
        if archive.entries.len() as u64 > MAX_SECTIONS {
            let what = format!("the archive has {} members; the limit is {MAX_SECTIONS}", archive.entries.len());
            return Err(Error::new(ErrorKind::Limit, what).into());
        }
        let (mut models, mut compressed) = (Vec::new(), 0);
        for entry in archive.entries.iter().filter(|entry| entry.byte_length > MIN_MODEL_BYTES) {
            if entry.method()? != Method::Stored {
                compressed += 1;
                continue;
            }
            let data = entry.data(window)?;
            if window.get(data.start..data.start + MIN_MODEL_BYTES)?.ends_with(IDENTIFIER) {
                models.push((format!("{}/", entry.name), data));
            }
        }
        let warning = (compressed > 0).then(|| format!("not listed: {compressed} members that are compressed"));
        let (version, metadata) = (Some(TASK_VERSION.to_owned()), Map::new());
        Ok(Sections { version, models, metadata, warnings: warning.into_iter().collect() })
    }

    fn read(&mut self, root: Table) -> Result<(), Stop> {
        let Some(listed) = root.table(1)? else { return Ok(()) };
        let objects = listed.tables(0)?;
        if objects.count() > MAX_SECTIONS {
            let what = format!("the file has {} sections; the limit is {MAX_SECTIONS}", objects.count());
            return Err(Error::new(ErrorKind::Limit, what).into());
        }
        let (mut described, mut external) = (Vec::new(), 0);
        for number in 0..objects.count() {
            let Some(object) = objects.get(number)? else { continue };
            let (begin, end, data_type) = (object.u64(1)?, object.u64(2)?, object.u8(3)?);
            if begin > end {
                return Err(malformed(format!("section {number} has the bytes {begin} to {end}")).into());
            }
            let name =
                TYPES.get(usize::from(data_type)).map_or_else(|| data_type.to_string(), |name| (*name).to_owned());
            let model_type = model_type(&object)?;
            described.push(json!({ "type": name, "begin": begin, "end": end, "model_type": model_type }));
            external += u64::from(data_type == WEIGHTS);
            if data_type == MODEL && begin < end {
                let mut prefix = model_type.unwrap_or_else(|| format!("section_{number}"));
                if self.models.iter().any(|(other, _)| other.strip_suffix('/') == Some(&prefix)) {
                    prefix = format!("{prefix}_{number}");
                }
                self.models.push((format!("{prefix}/"), begin..end));
            }
        }
        self.metadata.insert("sections".to_owned(), described.into());
        if external > 0 {
            self.warnings.push(format!("not listed: the weights in {external} sections of their own"));
        }
        Ok(())
    }
}

/// The entry `model_type` of a section.
fn model_type(object: &Table) -> Result<Option<String>, Stop> {
    let items = object.tables(0)?;
    for number in 0..items.count().min(MAX_SECTIONS) {
        let Some(item) = items.get(number)? else { continue };
        if item.text(0, MAX_TEXT_BYTES)? == Some("model_type") && item.u8(1)? == STRING_VALUE {
            let value = item.table(2)?.map(|value| value.text(0, MAX_TEXT_BYTES).map(|text| text.map(str::to_owned)));
            return Ok(value.transpose()?.flatten());
        }
    }
    Ok(None)
}
