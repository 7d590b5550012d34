//! What the bytes of a request belong to.

use crate::error::{Error, ErrorKind};

/// What bytes that are read belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A component of a planned tensor, by their numbers.
    Component { planned: usize, component: usize },
    /// Bytes between components, which are read because the whole file is checked.
    Gap,
}

impl Target {
    /// Whether one connection should read both: memory is reserved for a tensor as a whole.
    pub(crate) fn are_of_one_tensor(&self, other: &Self) -> bool {
        match (self, other) {
            (Target::Component { planned: one, .. }, Target::Component { planned: another, .. }) => one == another,
            _ => false,
        }
    }
}

/// The numbers of the planned tensor and of its component.
///
/// # Errors
/// `INTERNAL` for bytes between components.
pub(crate) fn key(target: Target) -> Result<(usize, usize), Error> {
    match target {
        Target::Component { planned, component } => Ok((planned, component)),
        Target::Gap => Err(unplanned()),
    }
}

pub(crate) fn unplanned() -> Error {
    Error::new(ErrorKind::Internal, "a tensor arrived that was not planned")
}
