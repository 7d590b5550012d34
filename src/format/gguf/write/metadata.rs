//! The metadata of a model as typed pairs.

use super::file::VERSION;
use super::types::{self, Type, U16, U32};
use super::values::{encode, natural_type, text};
use crate::error::{Error, ErrorKind, Result};
use crate::format::gguf::parse::{DEFAULT_ALIGNMENT, MAGIC, NAME, parse};
use crate::index::{Metadata, Parsed};
use crate::output::losses::Losses;
use crate::output::metadata::{self, GGUF_FILE_KEYS, as_object};
use crate::output::origin::Changes;
use crate::output::target::{ShardKind, ShardPosition};
use crate::output::vocabulary::Vocabulary;
use crate::output::writer::Settings;
use crate::values::json::shown;
use crate::window::{Stop, Window};
use serde_json::Value;

const ALIGNMENT_KEY: &str = "general.alignment";
const ARCHITECTURE_KEY: &str = "general.architecture";

/// Pairs of keys and typed values, as in a file.
#[derive(Debug, Clone, Default)]
pub(super) struct Pairs {
    pub(super) count: u64,
    pub(super) bytes: Vec<u8>,
}

impl Pairs {
    /// The metadata of the model.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the caller gives a key that describes a file; `UNSUPPORTED` if the architecture is missing
    /// and losses are not allowed, or if a value does not have its stated type.
    pub(super) fn of_model(settings: &Settings, losses: &mut Losses) -> Result<Self> {
        if let Some(key) = GGUF_FILE_KEYS.iter().find(|key| settings.given.contains_key(**key)) {
            let option = if *key == ALIGNMENT_KEY { "alignment" } else { "max_shard_bytes" };
            let what = format!("`{key}` describes a file, and is not metadata of the model");
            let advice = format!("Leave it out of `ConvertOptions::metadata`; `ConvertOptions::{option}` sets it.");
            return Err(Error::new(ErrorKind::InvalidArgument, what).advise(advice));
        }
        let mut joined = metadata::join(settings);
        let types = Types::take(&mut joined, settings.given)?;
        let vocabulary_key = Vocabulary::convert_for_gguf(&mut joined);
        joined.retain(|key, _| !GGUF_FILE_KEYS.contains(&&**key));
        if !settings.omits_metadata && !joined.get(ARCHITECTURE_KEY).is_some_and(Value::is_string) {
            let what = format!("the metadata has no `{ARCHITECTURE_KEY}`, which llama.cpp and other readers require");
            let advice = format!(
                "Provide it with `ConvertOptions::metadata`: a JSON file such as {{\"{ARCHITECTURE_KEY}\": \"llama\"}}."
            );
            losses.leave_out(Error::new(ErrorKind::Unsupported, what).advise(advice))?;
        }
        let mut pairs = Pairs::default();
        for (key, value) in &joined {
            match types.of(key, settings.given)? {
                Stated::Exactly(stated) => {
                    pairs.push(key, value, &stated).ok_or_else(|| mismatch(key, value, &stated))?
                }
                Stated::BySource(stated) => match pairs.push(key, value, &stated) {
                    Some(()) => {}
                    None => pairs.push_natural(key, value)?,
                },
                Stated::Nowhere => pairs.push_natural(key, value)?,
            }
        }
        if settings.source_format != NAME {
            let read = pairs.read()?;
            let changes = Changes::between(&joined, &read).with_vocabulary_from(vocabulary_key);
            // Otherwise a conversion back would add the types of these values. If the source states types, it has them
            // from an earlier file of GGUF.
            let changes = changes.needed_if(types.source.is_empty() && !read.values().all(Value::is_string));
            let mut record = Metadata::new();
            changes.record(NAME, settings, &mut record);
            record.iter().try_for_each(|(key, value)| pairs.push_natural(key, value))?;
        }
        Ok(pairs)
    }

    /// Returns the values as a reader of a file with these pairs gets them.
    fn read(&self) -> Result<Metadata> {
        let mut file = MAGIC.to_vec();
        file.extend(VERSION.to_le_bytes());
        file.extend(0u64.to_le_bytes()); // tensors
        file.extend(self.count.to_le_bytes());
        file.extend(&self.bytes);
        match parse(&Window::whole(&file)) {
            Ok(Parsed::File(mut index)) => Ok(index.take_metadata()),
            Err(Stop::Failed(error)) => Err(error),
            _ => Err(Error::new(ErrorKind::Internal, "the metadata to write cannot be read")),
        }
    }

    /// The pairs of one file: these if it is the first one, and those that describe the file.
    pub(super) fn of_file(&self, alignment: u64, place: ShardPosition) -> Result<Pairs> {
        let mut pairs = match place.kind() {
            ShardKind::First => self.clone(),
            ShardKind::Other => Pairs::default(),
        };
        let mut push = |key, number: u64, value_type| {
            let value = number.into();
            pairs.push(key, &value, &Type::Scalar(value_type)).ok_or_else(|| too_many(key, number))
        };
        if alignment != DEFAULT_ALIGNMENT {
            push(ALIGNMENT_KEY, alignment, U32)?;
        }
        if place.count > 1 {
            push("split.no", place.number as u64, U16)?;
            push("split.tensors.count", place.tensors as u64, types::I32)?;
            push("split.count", place.count as u64, U16)?;
        }
        Ok(pairs)
    }

    /// Appends a pair; nothing if the type cannot represent the value.
    fn push(&mut self, key: &str, value: &Value, value_type: &Type) -> Option<()> {
        let start = self.bytes.len();
        text(key, &mut self.bytes);
        self.bytes.extend(value_type.number().to_le_bytes());
        let encoded = encode(value, value_type, &mut self.bytes);
        match encoded {
            Some(()) => self.count += 1,
            None => self.bytes.truncate(start),
        }
        encoded
    }

    fn push_natural(&mut self, key: &str, value: &Value) -> Result<()> {
        let natural = natural_type(value);
        self.push(key, value, &natural).ok_or_else(|| mismatch(key, value, &natural))
    }
}

/// The types that the metadata states.
struct Types {
    given: Metadata,
    source: Metadata,
}

/// The type of a key.
enum Stated {
    /// The value must have it.
    Exactly(Type),
    /// The source states it for its own value, which the caller has replaced.
    BySource(Type),
    Nowhere,
}

impl Types {
    /// Takes the types out of the metadata. `given` is that of the caller.
    fn take(joined: &mut Metadata, given: &Metadata) -> Result<Self> {
        let object = |value: &Value| {
            as_object(value).map(|types| types.into_owned()).ok_or_else(|| {
                let what = format!("`{}` in the metadata is {}", types::KEY, shown(value));
                let advice = "It must be an object of keys and types, such as {\"llama.block_count\": \"u32\"}.";
                Error::new(ErrorKind::Unsupported, what).advise(advice)
            })
        };
        let of = |value: Option<&Value>| value.map_or(Ok(Metadata::new()), object);
        let taken = joined.shift_remove(types::KEY);
        Ok(Types { given: of(given.get(types::KEY))?, source: of(taken.as_ref())? })
    }

    /// The type of the value of `key`, which is that of the caller if `given` has the key.
    fn of(&self, key: &str, given: &Metadata) -> Result<Stated> {
        let read = |stated| Type::from_json(key, stated);
        Ok(match (self.given.get(key), self.source.get(key)) {
            (Some(stated), _) => Stated::Exactly(read(stated)?),
            (None, Some(stated)) if given.contains_key(key) => Stated::BySource(read(stated)?),
            (None, Some(stated)) => Stated::Exactly(read(stated)?),
            (None, None) => Stated::Nowhere,
        })
    }
}

fn mismatch(key: &str, value: &Value, stated: &Type) -> Error {
    let what = format!("\"{key}\" in the metadata is {}, which is no {}", shown(value), stated.to_json());
    Error::new(ErrorKind::Unsupported, what).advise(format!("Correct the value, or its type in `{}`.", types::KEY))
}

fn too_many(key: &str, number: u64) -> Error {
    let error = Error::new(ErrorKind::Limit, format!("`{key}` would be {number}, which GGUF cannot store"));
    error.advise("Allow larger files with `ConvertOptions::max_shard_bytes`.")
}
