//! What a target cannot hold: an error, or a warning where the caller allows the loss.

use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use std::collections::BTreeMap;

/// What allows losses.
const OPTION: &str = "--allow-loss";

/// What gets lost in a conversion.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    is_allowed: bool,
    warnings: Vec<String>,
    /// By key: how many tensors have it, and one of them.
    attributes: BTreeMap<String, (usize, String)>,
}

impl Losses {
    pub(crate) fn new(is_allowed: bool) -> Self {
        Losses { is_allowed, ..Losses::default() }
    }

    /// Something of the model gets lost: `error` says what.
    ///
    /// # Errors
    /// That one, where no loss is allowed.
    pub(crate) fn lose(&mut self, error: Error) -> Result<()> {
        self.allow(error, "leaves it out", "left out")
    }

    /// What `error` names gets stored in another way: `as_what` says how.
    ///
    /// # Errors
    /// That one, where no loss is allowed.
    pub(crate) fn store(&mut self, as_what: &str, error: Error) -> Result<()> {
        self.allow(error, &format!("stores it {as_what}"), &format!("stored {as_what}"))
    }

    /// `would` says what `--allow-loss` does about the error, `done` what was done.
    fn allow(&mut self, error: Error, would: &str, done: &str) -> Result<()> {
        if !self.is_allowed {
            let is_said = error.what.contains(OPTION); // by what refused a part of the tensor
            let what = if is_said { error.what } else { format!("{} (`{OPTION}` {would})", error.what) };
            return Err(Error { what, ..error });
        }
        let tensor = error.place.tensor.as_ref().map(|name| format!("tensor \"{name}\": ")).unwrap_or_default();
        self.warnings.push(format!("{done}: {tensor}{}", error.what));
        Ok(())
    }

    /// The target has no place for these attributes of a tensor. What its dtype says already is no loss.
    ///
    /// # Errors
    /// `UNSUPPORTED` where no loss is allowed.
    pub(crate) fn lose_attributes(
        &mut self,
        tensor: &Tensor,
        target: &str,
        is_kept: impl Fn(&str) -> bool,
    ) -> Result<()> {
        for key in tensor.attributes.keys().filter(|key| !is_kept(key) && !says_the_dtype(tensor, key)) {
            if !self.is_allowed {
                let what = format!("{target} has no place for its attribute `{key}` (`{OPTION}` leaves it out)");
                let advice = "Allow the loss, or choose a format that keeps it, such as ztensor.";
                return Err(Error::new(ErrorKind::Unsupported, what).advise(advice).in_tensor(&tensor.name));
            }
            self.attributes.entry(key.clone()).or_insert_with(|| (0, tensor.name.clone())).0 += 1;
        }
        Ok(())
    }

    pub(crate) fn into_warnings(self) -> Vec<String> {
        let mut warnings = self.warnings;
        for (key, (count, first)) in self.attributes {
            warnings.push(match count {
                1 => format!("left out: the attribute `{key}` of tensor \"{first}\""),
                _ => format!("left out: the attribute `{key}` of {count} tensors, the first of them \"{first}\""),
            });
        }
        warnings
    }
}

/// Burnpack's own spelling of a dtype that we have a name for: `{"Bool": "Native"}`, `"Flex32"`.
fn says_the_dtype(tensor: &Tensor, key: &str) -> bool {
    key == "dtype" && tensor.dtype.block().is_some()
}
