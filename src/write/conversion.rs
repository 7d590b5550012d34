//! Prepares a conversion: what is written, in which order and how; but not yet in which files.

use super::cast::{self, NotCast};
use super::companion::Companion;
use super::input::Input;
use super::options::ConvertOptions;
use super::positions::are_positions;
use super::source::Source;
use crate::dtype::{Dtype, UNKNOWN_GGML_TYPE, element_count};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Tensor};
use crate::output::losses::Losses;
use crate::output::target::Target;
use crate::output::writer::Writer;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

/// A conversion whose tensors are not yet assigned to files.
pub struct Conversion {
    /// The format to write, with the options of the caller.
    pub target: Box<dyn Target>,
    /// The writer of this format.
    pub writer: &'static Writer,
    /// The tensors to write, in order, in the dtypes of the new files.
    pub tensors: Vec<Tensor>,
    /// Warnings about what the format cannot store.
    pub warnings: Vec<String>,
}

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion")
            .field("tensors", &self.tensors)
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
}

impl Conversion {
    /// Decides what is written to `out`.
    ///
    /// # Errors
    /// Those of [`convert`](super::convert) for options and tensors that the format does not support.
    pub fn prepare(
        input: &dyn Input,
        out: &Path,
        options: &ConvertOptions,
        companion: Option<&dyn Companion>,
    ) -> Result<Self> {
        let mut losses = Losses::new(options.allow_loss);
        let (format, writer) = options.writer(out)?;
        let mut source = Source::of(input, format)?;
        let mut warnings = std::mem::take(&mut source.warnings);
        let target = (writer.new)(&options.settings(format, writer, input, &source)?, &mut losses)?;
        if format.name != "gguf" {
            input.tensors().iter().try_for_each(|tensor| check_length(tensor, &mut losses))?;
        }
        let mut tensors = target_tensors(input, options.dtype.as_ref(), &*target, &mut losses, companion)?;
        options.order.sort(&mut tensors)?;
        warnings.extend(losses.into_warnings());
        warnings.extend(options.dtype.iter().flat_map(|dtype| not_cast(input, dtype)));
        Ok(Conversion { target, writer, tensors, warnings })
    }
}

/// Returns the tensors to write: cast if requested, and checked by the target.
fn target_tensors(
    input: &dyn Input,
    dtype: Option<&Dtype>,
    target: &dyn Target,
    losses: &mut Losses,
    companion: Option<&dyn Companion>,
) -> Result<Vec<Tensor>> {
    let mut wanted = Vec::with_capacity(input.tensors().len());
    if dtype.is_some() {
        check_views(input.tensors())?;
    }
    for tensor in in_dtypes(input, dtype, companion)? {
        match target.check(&tensor, losses) {
            Ok(()) => wanted.push(tensor),
            Err(_) if are_positions(input, &tensor)? => {
                losses.warn(format!("left out: tensor \"{}\", positions that readers compute themselves", tensor.name));
            }
            Err(error) => losses.leave_out(error.in_tensor(&tensor.name))?,
        }
    }
    Ok(wanted)
}

/// The tensors of the input as its files have them: the parts of a quantized tensor, instead of the tensor.
pub(super) fn stored_tensors(input: &dyn Input) -> Result<Vec<Tensor>> {
    in_dtypes(input, None, None)
}

/// The tensors of the input in the dtypes to write. A quantized tensor of several components that keeps its dtype is
/// written as the tensors that its components are in the file.
fn in_dtypes(input: &dyn Input, dtype: Option<&Dtype>, companion: Option<&dyn Companion>) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::with_capacity(input.tensors().len());
    let mut has_parts = false;
    for tensor in input.tensors() {
        let dtype = dtype.filter(|_| !companion.is_some_and(|companion| companion.keeps_dtype(tensor)));
        let dtype = dtype.or_else(|| tensor.is_adapted().then_some(&tensor.dtype));
        match dtype.and_then(|dtype| cast::target_dtype(tensor, dtype)) {
            Some(dtype) => tensors.push(in_dtype(tensor, dtype).map_err(|e| e.in_tensor(&tensor.name))?),
            None => {
                if let (Some(quantized), Some(Dtype::F32 | Dtype::F16 | Dtype::BF16)) = (tensor.quantized(), dtype) {
                    quantized.scheme.check().map_err(|error| error.in_tensor(&tensor.name))?;
                }
                has_parts |= tensor.quantized().is_some();
                tensors.extend(tensor.stored_parts());
            }
        }
    }
    if has_parts {
        tensors.sort_by_key(|tensor| (tensor.shard, tensor.first_byte()));
    }
    Ok(tensors)
}

/// Checks that the length of the tensor is known. A tensor whose type of ggml is unknown ends where the next one
/// begins: GGUF has padding between them, which would be data in other formats.
fn check_length(tensor: &Tensor, losses: &mut Losses) -> Result<()> {
    let Some(number) = tensor.dtype.name().strip_prefix(UNKNOWN_GGML_TYPE) else { return Ok(()) };
    let what = format!("its type {number} is unknown, so that its bytes may include padding");
    let error = Error::new(ErrorKind::Unsupported, what).in_tensor(&tensor.name);
    losses.store("with the padding", error.advise("A later version of weightstream may know the type."))
}

/// Checks that tensors with the same bytes have the same dtype, so that they also have the same bytes after a cast.
fn check_views(tensors: &[Tensor]) -> Result<()> {
    // Tensors with the same bytes are next to each other in file order.
    for pair in tensors.windows(2) {
        if let [one, other] = pair
            && one.shares_bytes_with(other)
            && one.dtype != other.dtype
        {
            let what =
                format!("it has the same bytes as \"{}\", but as {} instead of {}", one.name, other.dtype, one.dtype);
            let error = Error::new(ErrorKind::Unsupported, what).in_tensor(&other.name);
            return Err(error.advise("Convert the model without `ConvertOptions::dtype`."));
        }
    }
    Ok(())
}

/// Returns the tensor with another dtype. The digests and the quantization of the source do not apply to the new bytes.
pub(super) fn in_dtype(tensor: &Tensor, dtype: Dtype) -> Result<Tensor> {
    let decoded_length = dtype.byte_length(element_count(&tensor.shape)?)?;
    if tensor.quantized().is_some() {
        let start = tensor.first_byte();
        let data = Component { decoded_length, ..Component::raw(dtype.clone(), start..start) };
        let dense = Tensor::dense(tensor.name.clone(), dtype, tensor.shape.clone(), data);
        return Ok(Tensor { shard: tensor.shard, ..dense });
    }
    let cast = |component: &Component| Component {
        dtype: dtype.clone(),
        decoded_length,
        digest: None,
        pages: None,
        ..component.clone()
    };
    let components = tensor.components.iter().map(cast).collect();
    let mut attributes = tensor.attributes.clone();
    // AERO describes quantized elements with these.
    attributes.retain(|key, _| !key.starts_with("quant_"));
    Ok(Tensor { dtype: dtype.clone(), components, attributes, ..tensor.clone() })
}

/// Returns the dtypes of the tensors of the input that are written in another dtype, in file order.
pub(super) fn cast_from(input: &dyn Input, written: &[Tensor]) -> Vec<Dtype> {
    let written: HashMap<&str, &Dtype> = written.iter().map(|tensor| (&*tensor.name, &tensor.dtype)).collect();
    let mut dtypes = Vec::new();
    for Tensor { name, dtype, .. } in input.tensors() {
        if written.get(&**name).is_some_and(|written| *written != dtype) && !dtypes.contains(dtype) {
            dtypes.push(dtype.clone());
        }
    }
    dtypes
}

/// Returns warnings about tensors that are not cast although a cast was requested: one for each dtype and reason.
fn not_cast(input: &dyn Input, dtype: &Dtype) -> Vec<String> {
    let mut groups: BTreeMap<_, (usize, &str)> = BTreeMap::new();
    for tensor in input.tensors() {
        if let Some(reason) = cast::why_not_cast(tensor, dtype) {
            groups.entry((reason, tensor.dtype.name())).or_insert((0, &tensor.name)).0 += 1;
        }
    }
    let warning = |((reason, stored), (count, first))| {
        let (why, advice) = match reason {
            NotCast::Rows => ("their rows do not fill its blocks", "F16 and BF16 have no blocks"),
            NotCast::Dtype => ("this dtype cannot be decoded", "Convert them with the tool that wrote the model"),
            NotCast::Layout => ("they are quantized in several components", "Convert them to F32 or F16 first"),
            NotCast::Padding => ("their rows may be padded", "Convert them with the tool that wrote the model"),
        };
        let noun = if count == 1 { "tensor" } else { "tensors" };
        format!("not cast to {dtype}: {count} {noun} of {stored}, because {why}; the first is \"{first}\". {advice}.")
    };
    groups.into_iter().map(warning).collect()
}
