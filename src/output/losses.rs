//! Losses of a conversion: data that the target cannot store is an error, or a warning if the caller allows losses.

use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use serde_json::Value;
use std::collections::BTreeMap;

/// The option that allows losses.
const OPTION: &str = "ConvertOptions::allow_loss";

/// Collects the losses of a conversion.
#[derive(Debug, Default)]
pub struct Losses {
    is_allowed: bool,
    warnings: Vec<String>,
    /// The number of tensors with an attribute, and the name of the first, by key.
    attributes: BTreeMap<String, (usize, String)>,
    /// The number of tensors that only weightstream reads, and the name of the first, by dtype.
    extensions: BTreeMap<String, (usize, String)>,
}

impl Losses {
    pub(crate) fn new(is_allowed: bool) -> Self {
        Losses { is_allowed, ..Losses::default() }
    }

    /// Records that the item named by `error` is left out.
    ///
    /// # Errors
    /// `error`, if losses are not allowed.
    pub(crate) fn leave_out(&mut self, error: Error) -> Result<()> {
        self.allow(error, "leaves it out", "left out")
    }

    /// Records that the item named by `error` is stored differently, as described by `as_what`.
    ///
    /// # Errors
    /// `error`, if losses are not allowed.
    pub(crate) fn store(&mut self, as_what: &str, error: Error) -> Result<()> {
        self.allow(error, &format!("stores it {as_what}"), &format!("stored {as_what}"))
    }

    /// Records a loss. `would` describes the effect of the option for the error, `done` the result for the warning.
    fn allow(&mut self, error: Error, would: &str, done: &str) -> Result<()> {
        if !self.is_allowed {
            let names_option = error.what.contains(OPTION); // set when a part of the tensor was rejected
            let what = if names_option { error.what } else { format!("{} (`{OPTION}` {would})", error.what) };
            return Err(Error { what, ..error });
        }
        let tensor = error.context.tensor.as_ref().map(|name| format!("tensor \"{name}\": ")).unwrap_or_default();
        self.warnings.push(format!("{done}: {tensor}{}", error.what));
        Ok(())
    }

    /// Records the attributes of a tensor that the target cannot store. An attribute that the dtype implies is not a
    /// loss.
    ///
    /// # Errors
    /// `UNSUPPORTED`, if losses are not allowed.
    pub(crate) fn leave_out_attributes(
        &mut self,
        tensor: &Tensor,
        target: &str,
        is_kept: impl Fn(&str) -> bool,
    ) -> Result<()> {
        for key in tensor.attributes.keys().filter(|key| !is_kept(key) && !is_implied_by_dtype(tensor, key)) {
            if !self.is_allowed {
                let what = format!("{target} cannot store its attribute `{key}` (`{OPTION}` leaves it out)");
                let advice = "Allow the loss, or choose a format that supports it, such as ztensor.";
                return Err(Error::new(ErrorKind::Unsupported, what).advise(advice).in_tensor(&tensor.name));
            }
            self.attributes.entry(key.clone()).or_insert_with(|| (0, tensor.name.clone())).0 += 1;
        }
        Ok(())
    }

    /// Records that the tensor is stored by an extension of the format. Nothing is lost, but other readers may not know
    /// the extension.
    pub(crate) fn extend(&mut self, tensor: &Tensor) {
        self.extensions.entry(tensor.dtype.to_string()).or_insert_with(|| (0, tensor.name.clone())).0 += 1;
    }

    /// Adds a warning about something that is not a loss.
    pub(crate) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    pub(crate) fn into_warnings(self) -> Vec<String> {
        let mut warnings = self.warnings;
        for (key, (count, first)) in self.attributes {
            warnings.push(match count {
                1 => format!("left out: the attribute `{key}` of tensor \"{first}\""),
                _ => format!("left out: the attribute `{key}` of {count} tensors, the first of them \"{first}\""),
            });
        }
        for (dtype, (count, first)) in self.extensions {
            let noun = if count == 1 { "tensor" } else { "tensors" };
            warnings.push(format!(
                "only weightstream reads {count} {noun} of {dtype} in this format, the first of them \"{first}\". \
                 `ConvertOptions::dtype` casts matrices and quantized tensors for other readers."
            ));
        }
        warnings
    }
}

/// Whether an attribute says no more than the dtype: Burnpack's spelling of a known dtype (`{"Bool": "Native"}`,
/// `"Flex32"`), or AERO's description of a type of ggml.
fn is_implied_by_dtype(tensor: &Tensor, key: &str) -> bool {
    let Some(block) = tensor.dtype.block() else { return false };
    match key {
        "dtype" => true,
        "quant_id" | "quant_descriptor" | "quant_params" => {
            let params = tensor.attributes.get("quant_params").and_then(Value::as_object);
            block.elements > 1 && params.is_some_and(|params| params.keys().eq(["ggml_type"]))
        }
        _ => false,
    }
}
