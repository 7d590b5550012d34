//! What is done with the bytes of a component.

use super::Extent;
use crate::codec::cast::Conversion;
use crate::index::{Component, ComponentDigest, Digest, DigestedBytes, Encoding, StoredEnd, Tensor};
use std::ops::Range;

/// Describes how to process the stored bytes of a component. Plain data that can be sent to another thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The component. Its `digest` and `pages` are not used here.
    pub component: Component,
    /// The decoded bytes to return. The end is `u64::MAX` if the decoded length is unknown.
    pub wanted: Range<u64>,
    /// Whether to store these bytes in a buffer. Otherwise they are only decoded and digested.
    pub stores_output: bool,
    /// Where the stored bytes end.
    pub end: StoredEnd,
    /// The expected digests.
    pub digests: Vec<ComponentDigest>,
    /// The conversion of the decoded elements, if they are stored in another dtype.
    pub conversion: Option<Conversion>,
}

impl Task {
    /// Decodes and stores all bytes of a component, and compares its own digest and the rule of its values.
    pub(crate) fn whole(component: &Component) -> Self {
        let digests = component.digest_beside_streams().into_iter().chain(component.digest).collect();
        Task { digests, ..Task::unchecked(component, &Extent::whole(component)) }
    }

    /// Decodes and stores bytes of a component without digests.
    pub(crate) fn unchecked(component: &Component, extent: &Extent) -> Self {
        let (wanted, end) = (extent.wanted.clone(), extent.end);
        let component = component.clone();
        Task { component, wanted, stores_output: true, end, digests: Vec::new(), conversion: None }
    }

    /// Whether the task takes much longer than reading the bytes. Only heavy tasks are sent to other threads.
    pub fn is_heavy(&self) -> bool {
        self.conversion.is_some() || is_heavy(self.component.encoding, self.digests.iter().map(|stated| stated.digest))
    }

    /// Whether the stored bytes must come in the order of the file, although they are of several streams.
    pub(crate) fn needs_order(&self) -> bool {
        self.digests.iter().any(|stated| stated.over == DigestedBytes::Stored)
    }

    /// Whether the bytes are compared with digests, or their values with a rule.
    pub(crate) fn has_checks(&self) -> bool {
        !self.digests.is_empty() || self.component.rule.is_some()
    }

    /// The range of the bytes that the buffer has: decoded, and converted if requested.
    pub(super) fn output_range(&self) -> Range<u64> {
        self.conversion.as_ref().map_or_else(|| self.wanted.clone(), Conversion::output_range)
    }
}

/// Like [`Task::is_heavy`].
pub(crate) fn is_heavy(encoding: Encoding, mut digests: impl Iterator<Item = Digest>) -> bool {
    !encoding.keeps_positions() || digests.any(|digest| matches!(digest, Digest::Sha256(_) | Digest::Blake3(_)))
}

/// The digests that a component is compared with while it is read completely: its own if `verify` is set, and the
/// `pinned` one of the tensor if the component is its only one.
pub(crate) fn expected_digests(
    tensor: &Tensor,
    component: &Component,
    pinned: Option<Digest>,
    verify: bool,
) -> Vec<ComponentDigest> {
    let own = component.digest.filter(|_| verify);
    let pinned = pinned.filter(|_| tensor.components.len() == 1);
    let pinned = pinned.map(|digest| ComponentDigest { digest, over: DigestedBytes::Decoded });
    own.into_iter().chain(pinned).collect()
}
