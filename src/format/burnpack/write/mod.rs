//! Writes Burnpack byte for byte like the crate `burn-pack` 0.22: a header, CBOR that describes the tensors, then their
//! data, everything aligned to 256 bytes. Burn reads such files since 0.20.
//!
//! Metadata values are text: other values are written as JSON. Only `scalars` keep their types, if they have the form
//! in which [`format::burnpack`](crate::format::burnpack) returns them. A Bool is written as in 0.21 and later, unless
//! the source states its width; 0.20 spells it differently, and no version reads both spellings.

use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result};
use crate::format::burnpack::parse::{ALIGNMENT, HEADER_BYTES, MAGIC, MAX_CBOR_BYTES, parse_dtype};
use crate::index::{Layout, Metadata, Tensor};
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::losses::Losses;
use crate::output::metadata;
use crate::output::origin::Changes;
use crate::output::target::{CAST, ShardPosition, Target, TensorFile, TensorSource};
use crate::output::writer::{Settings, Writer};
use crate::values::cbor_writer::{self as cbor, Cbor};
use minicbor::encode;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;

/// The version in all releases of Burn, although the layout changed.
const VERSION: u16 = 1;

/// Limits of Burn's reader.
const MAX_TENSORS: usize = 100_000;
const MAX_TENSOR_BYTES: u64 = 10 << 30;
const MAX_FILE_BYTES: u64 = 100 << 30;

/// The writer of the format.
pub(super) const WRITER: Writer = Writer {
    compressions: &[],
    digests: &[],
    alignments: &[ALIGNMENT],
    shards: false,
    versions: &[],
    metadata_first: false,
    vocabulary: false,
    describe: None,
    new: |settings, _| Ok(Box::new(Burnpack::new(settings))),
};

/// The format with the metadata of a file.
struct Burnpack {
    metadata: BTreeMap<String, String>,
    /// Each value is an object with its type and its value: `{"UInt": 3}`.
    scalars: BTreeMap<String, Value>,
}

impl Burnpack {
    fn new(settings: &Settings) -> Self {
        let mut joined: Metadata = metadata::join(settings);
        let scalars = joined.get("scalars").and_then(metadata::as_object);
        let scalars = scalars.filter(|scalars| scalars.values().all(is_scalar)).map(|scalars| scalars.into_owned());
        if scalars.is_some() {
            joined.remove("scalars");
        }
        Changes::to_text(&joined).record("burnpack", settings, &mut joined);
        let as_text = |(key, value): (String, Value)| (key, metadata::as_text(&value).into_owned());
        let metadata = joined.into_iter().map(as_text).collect();
        Burnpack { metadata, scalars: scalars.into_iter().flatten().collect() }
    }

    /// Returns all bytes before the data, including the padding.
    fn head(&self, tensors: &[Tensor]) -> Result<Vec<u8>> {
        check_limit("tensors", tensors.len() as u64, MAX_TENSORS as u64)?;
        let mut placed = Vec::with_capacity(tensors.len());
        let mut end = 0u64;
        for tensor in tensors {
            let start = end.next_multiple_of(ALIGNMENT);
            end = start + byte_length(tensor)?;
            let unsupported = || Error::new(ErrorKind::Internal, "Burnpack cannot store this tensor");
            placed.push(Placed { tensor, dtype: dtype(tensor).ok_or_else(unsupported)?, offsets: [start, end] });
        }
        placed.sort_by(|a, b| a.tensor.name.cmp(&b.tensor.name));
        let failed = |e| Error::new(ErrorKind::Internal, format!("the description cannot be written as CBOR: {e}"));
        let description = self.describe(&placed).map_err(failed)?;
        check_limit("bytes of names and metadata", description.len() as u64, MAX_CBOR_BYTES)?;

        let description_length = description.len() as u32; // no more than `MAX_CBOR_BYTES`
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        head.extend(description_length.to_le_bytes());
        head.extend(description);
        let head_length = (HEADER_BYTES + u64::from(description_length)).next_multiple_of(ALIGNMENT);
        check_limit("bytes", head_length + end, MAX_FILE_BYTES)?;
        head.resize(usize::try_from(head_length).unwrap_or(head.len()), 0);
        Ok(head)
    }

    /// Encodes the description as CBOR. Maps are sorted, and empty maps are omitted, except that of the tensors.
    fn describe(&self, placed: &[Placed]) -> Result<Vec<u8>, encode::Error<Infallible>> {
        let mut cbor = Cbor::new(Vec::new());
        cbor.map(1 + u64::from(!self.metadata.is_empty()) + u64::from(!self.scalars.is_empty()))?;
        cbor.str("tensors")?.map(placed.len() as u64)?;
        for Placed { tensor, dtype, offsets } in placed {
            let param_id = tensor.attributes.get("param_id").and_then(Value::as_u64);
            cbor.str(&tensor.name)?.map(3 + u64::from(param_id.is_some()))?;
            cbor::value(cbor.str("dtype")?, dtype)?;
            cbor.str("shape")?.encode(&tensor.shape)?;
            cbor.str("data_offsets")?.encode(offsets)?;
            if let Some(param_id) = param_id {
                cbor.str("param_id")?.u64(param_id)?;
            }
        }
        if !self.metadata.is_empty() {
            cbor.str("metadata")?.encode(&self.metadata)?;
        }
        if !self.scalars.is_empty() {
            cbor.str("scalars")?.map(self.scalars.len() as u64)?;
            for (name, scalar) in &self.scalars {
                cbor.str(name)?;
                describe_scalar(&mut cbor, scalar)?;
            }
        }
        Ok(cbor.into_writer())
    }
}

/// A tensor and its position in the file.
struct Placed<'a> {
    tensor: &'a Tensor,
    dtype: Value,
    /// The start and end, relative to the start of the data.
    offsets: [u64; 2],
}

impl Target for Burnpack {
    fn check(&self, tensor: &Tensor, losses: &mut Losses) -> Result<()> {
        let refuse = |kind, what: String, advice: &str| Err(Error::new(kind, what).advise(advice));
        if tensor.layout != Layout::Dense || tensor.components.len() != 1 {
            let what = format!("its layout is {}, and Burnpack supports only dense tensors", tensor.layout.name());
            return refuse(ErrorKind::Unsupported, what, "Convert it to a dense tensor first, or choose ztensor.");
        }
        if dtype(tensor).is_none() {
            let what = format!("Burnpack has no dtype {}", tensor.dtype);
            return refuse(ErrorKind::Unsupported, what, CAST);
        }
        let byte_length = byte_length(tensor)?;
        if byte_length > MAX_TENSOR_BYTES {
            let what = format!("it has {byte_length} bytes, and Burn reads tensors of at most {MAX_TENSOR_BYTES}");
            return refuse(ErrorKind::Limit, what, "Split it before the conversion, or choose another format.");
        }
        losses.leave_out_attributes(tensor, "Burnpack", |key| match key {
            "param_id" => tensor.attributes.get(key).is_some_and(Value::is_u64),
            "dtype" => own_dtype(tensor).is_some(),
            _ => false,
        })
    }

    fn begin<'a>(
        &'a self,
        mut file: PartialFile,
        tensors: &'a [Tensor],
        _: ShardPosition,
    ) -> Result<Box<dyn TensorFile + 'a>> {
        file.write(&self.head(tensors)?)?;
        Ok(Box::new(BurnpackFile { file }))
    }
}

/// A file whose head has been written.
struct BurnpackFile {
    file: PartialFile,
}

impl TensorFile for BurnpackFile {
    fn position(&self) -> u64 {
        self.file.position()
    }

    /// Writes padding also before a tensor without bytes, because Burn includes it in the expected file length.
    fn write_tensor(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<()> {
        self.file.align(ALIGNMENT)?;
        source.read(tensor, &mut |bytes| self.file.write(bytes))
    }

    fn finish(self: Box<Self>) -> Result<FinishedFile> {
        self.file.finish()
    }
}

/// Returns the dtype of a tensor as Burnpack spells it.
fn dtype(tensor: &Tensor) -> Option<Value> {
    own_dtype(tensor).cloned().or_else(|| match &tensor.dtype {
        Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16 => Some(tensor.dtype.name().into()),
        Dtype::I64 | Dtype::I32 | Dtype::I16 | Dtype::I8 => Some(tensor.dtype.name().into()),
        Dtype::U64 | Dtype::U32 | Dtype::U16 | Dtype::U8 => Some(tensor.dtype.name().into()),
        Dtype::Bool => Some(json!({ "Bool": "Native" })),
        _ => None,
    })
}

/// Returns the dtype that the source Burnpack file states, if it has more details than [`Dtype`] and still matches the
/// tensor's dtype: `"Flex32"`, the width of a Bool, the scheme of a quantization.
fn own_dtype(tensor: &Tensor) -> Option<&Value> {
    let stated = tensor.attributes.get("dtype")?;
    let is_own = match stated {
        Value::String(name) => name == "Flex32",
        Value::Object(map) => map.iter().all(|(name, details)| match name.as_str() {
            "Bool" => details.is_string(),
            "QFloat" => details.is_object(),
            _ => false,
        }),
        _ => false,
    };
    (is_own && parse_dtype(stated).is_ok_and(|dtype| dtype == tensor.dtype)).then_some(stated)
}

/// Returns the length of the data. For a quantized tensor it is the stored length, because the bytes include scales.
fn byte_length(tensor: &Tensor) -> Result<u64> {
    let stated = || tensor.components.first().and_then(|data| data.decoded_length);
    tensor.dtype.byte_length(element_count(&tensor.shape)?)?.or_else(stated).ok_or_else(|| {
        let what = "its length is known only after decoding, but Burnpack stores it before the data";
        Error::new(ErrorKind::Unsupported, what).advise("Convert the model to ztensor without compression first.")
    })
}

fn is_scalar(value: &Value) -> bool {
    value.as_object().is_some_and(|scalar| {
        scalar.len() == 1
            && scalar.iter().all(|(kind, value)| match kind.as_str() {
                "Int" => value.is_i64(),
                "UInt" => value.is_u64(),
                "Float" => as_float(value).is_some(),
                "Bool" => value.is_boolean(),
                _ => false,
            })
    })
}

/// Parses a float. JSON has no infinities and no NaN, so these are strings.
fn as_float(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn describe_scalar(cbor: &mut Cbor, scalar: &Value) -> Result<(), encode::Error<Infallible>> {
    let float = scalar.get("Float").and_then(as_float);
    match float {
        Some(float) => cbor::float(cbor.map(1)?.str("Float")?, float),
        None => cbor::value(cbor, scalar),
    }
}

fn check_limit(of: &str, wanted: u64, allowed: u64) -> Result<()> {
    if wanted <= allowed {
        return Ok(());
    }
    let error =
        Error::new(ErrorKind::Limit, format!("the file would have {wanted} {of}; Burn reads at most {allowed}"));
    Err(error.advise("Split the model, or choose a format that supports several files, such as safetensors."))
}

#[cfg(all(test, not(miri)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
mod tests;
