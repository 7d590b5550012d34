//! The GGUF types of metadata values, which JSON does not express. A conversion records them in the metadata, so that
//! they survive in any format.

use crate::error::{Error, ErrorKind, Result};
use crate::format::gguf::head::Head;
use crate::format::gguf::metadata::{ARRAY, STRING, byte_length_of};
use crate::index::Metadata;
use crate::output::metadata::{GGUF_FILE_KEYS, GGUF_TYPES_KEY};
use crate::values::json::shown;
use crate::window::{Stop, Window};
use serde_json::{Number, Value};

/// The key of the metadata. Its value is an object: the type of each key whose value is not a string. GGUF files do not
/// contain it.
pub(super) const KEY: &str = GGUF_TYPES_KEY;

/// The numbers of the types in files, and their names.
const SCALARS: &[(u32, &str)] = &[
    (U8, "u8"),
    (I8, "i8"),
    (U16, "u16"),
    (I16, "i16"),
    (U32, "u32"),
    (I32, "i32"),
    (F32, "f32"),
    (BOOL, "bool"),
    (STRING, "string"),
    (U64, "u64"),
    (I64, "i64"),
    (F64, "f64"),
];

pub(super) const U8: u32 = 0;
pub(super) const I8: u32 = 1;
pub(super) const U16: u32 = 2;
pub(super) const I16: u32 = 3;
pub(super) const U32: u32 = 4;
pub(super) const I32: u32 = 5;
pub(super) const F32: u32 = 6;
pub(super) const BOOL: u32 = 7;
pub(super) const U64: u32 = 10;
pub(super) const I64: u32 = 11;
pub(super) const F64: u32 = 12;

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Type {
    /// A number of `SCALARS`.
    Scalar(u32),
    /// The type of all items, or one for each item of nested arrays whose types differ. Empty in an empty array of
    /// arrays.
    Array(Vec<Type>),
}

impl Type {
    pub(super) const TEXT: Type = Type::Scalar(STRING);

    pub(super) fn array_of(scalar: u32) -> Self {
        Type::Array(vec![Type::Scalar(scalar)])
    }

    /// The number in files.
    pub(super) fn number(&self) -> u32 {
        match self {
            Type::Scalar(number) => *number,
            Type::Array(_) => ARRAY,
        }
    }

    /// The type that the metadata states: `"u32"`, `["f32"]`, `[["u8"], ["i32"]]`.
    pub(super) fn from_json(key: &str, stated: &Value) -> Result<Self> {
        match stated {
            Value::String(name) => {
                let known = SCALARS.iter().find(|(_, known)| known == name);
                known.map(|(number, _)| Type::Scalar(*number)).ok_or_else(|| unknown(key, stated))
            }
            Value::Array(items) => {
                Ok(Type::Array(items.iter().map(|item| Type::from_json(key, item)).collect::<Result<_>>()?))
            }
            _ => Err(unknown(key, stated)),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        match self {
            Type::Scalar(number) => {
                let known = SCALARS.iter().find(|(known, _)| known == number);
                known.map_or_else(|| Value::Number(Number::from(*number)), |(_, name)| Value::from(*name))
            }
            Type::Array(items) => items.iter().map(Type::to_json).collect(),
        }
    }
}

/// Returns the types of a file's metadata under [`KEY`].
pub(super) fn describe(window: &Window) -> Result<Metadata, Stop> {
    let mut head = Head::open(window)?;
    head.count()?; // the tensors
    let pair_count = head.count()?;
    let mut types = Metadata::new();
    for _ in 0..pair_count {
        let key = head.name()?;
        let number = head.cursor.u32()?;
        let value_type = skip(&mut head, number)?;
        if value_type != Type::TEXT && !GGUF_FILE_KEYS.contains(&key) {
            types.insert(key.to_owned(), value_type.to_json());
        }
    }
    let recorded = (!types.is_empty()).then(|| (KEY.to_owned(), types.into()));
    Ok(recorded.into_iter().collect())
}

/// Skips a value, and returns its type. The parser has checked the nesting of arrays.
fn skip(head: &mut Head, number: u32) -> Result<Type, Stop> {
    if number == STRING {
        head.string()?;
    } else if number == ARRAY {
        return skip_array(head);
    } else {
        head.cursor.take(byte_length_of(number).unwrap_or(0))?;
    }
    Ok(Type::Scalar(number))
}

fn skip_array(head: &mut Head) -> Result<Type, Stop> {
    let number = head.cursor.u32()?;
    let count = head.count()?;
    if number != ARRAY {
        match byte_length_of(number) {
            Some(byte_length) => _ = head.cursor.take(count.saturating_mul(byte_length))?,
            None => (0..count).try_for_each(|_| head.string().map(drop))?,
        }
        return Ok(Type::array_of(number));
    }
    let mut items = (0..count).map(|_| skip(head, ARRAY)).collect::<Result<Vec<_>, _>>()?;
    if items.is_empty() {
        items.push(Type::Array(Vec::new()));
    }
    if items.windows(2).all(|pair| pair.first() == pair.last()) {
        items.truncate(1);
    }
    Ok(Type::Array(items))
}

fn unknown(key: &str, stated: &Value) -> Error {
    let what = format!("`{KEY}` in the metadata states the type {} for \"{key}\"", shown(stated));
    let names = SCALARS.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    let advice = format!("It must be one of {names}, or such a type in an array.");
    Error::new(ErrorKind::Unsupported, what).advise(advice)
}
