//! Passes digests and ranges of a file to its source, which may have a cache.

use super::ModelFile;
use crate::index::{Component, ComponentDigest, Digest};
use crate::plan::DEFAULT_COALESCE_GAP_BYTES;
use crate::source::Source;
use std::ops::Range;

impl<S: Source> ModelFile<S> {
    /// Passes the expected digest of the whole file to the source. Must be called before the first read.
    pub(crate) fn expect_whole(&self, digest: Option<Digest>) {
        if let Some(digest) = digest.filter(Digest::is_strong) {
            self.source.expect_whole(&digest);
        }
    }

    /// Passes the expected digests of a component to the source.
    pub(crate) fn expect_content<'a>(
        &self,
        component: &Component,
        stated: impl IntoIterator<Item = &'a ComponentDigest>,
    ) {
        self.for_each_content_digest(component, stated, |digest| self.source.expect(component.range.clone(), digest));
    }

    /// Tells the source which ranges will be read as a whole into single buffers.
    pub(crate) fn expect_buffers(&self, ranges: Vec<Range<u64>>) {
        if self.packed.borrow().is_none() && self.signed.is_none() && self.joined.is_none() {
            self.source.expect_buffers(ranges);
        }
    }

    /// Tells the source that a component was read completely and matched these digests.
    pub(crate) fn confirm_contents(&self, component: &Component, digests: &[ComponentDigest]) {
        self.for_each_content_digest(component, digests, |digest| self.source.confirm(component.range.clone(), digest));
    }

    /// Tells the source that the whole file was read and matched this digest.
    pub(crate) fn confirm_whole(&self, digest: &Digest) {
        if let Some(length) = self.stored_length().filter(|_| digest.is_strong()) {
            self.source.confirm(0..length, digest);
        }
    }

    /// Calls `tell` with each strong digest of a component's stored bytes. Skips small components: the bytes around a
    /// component are unique to the file, so separate requests are needed, and a small component is not worth them.
    fn for_each_content_digest<'a>(
        &self,
        component: &Component,
        stated: impl IntoIterator<Item = &'a ComponentDigest>,
        tell: impl Fn(&Digest),
    ) {
        let is_worth_it = component.range.end.saturating_sub(component.range.start) >= DEFAULT_COALESCE_GAP_BYTES;
        if is_worth_it && self.packed.borrow().is_none() && self.joined.is_none() {
            stated.into_iter().filter_map(|stated| stated.content(component.encoding)).for_each(tell);
        }
    }
}
