//! Keeps what was read of a remote tensor, so that a writer that tries several encodings requests it once.

use super::target::TensorSource;
use crate::error::Result;
use crate::index::Component;
use std::borrow::Cow;

/// The maximum number of bytes that are kept of a tensor. A larger component is requested again.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// A source that keeps the components that were read, if it is remote.
pub(crate) struct KeptSource<'a> {
    source: &'a mut dyn TensorSource,
    /// The role of each component that was read completely, and its bytes.
    components: Vec<(Cow<'static, str>, Vec<u8>)>,
}

impl<'a> KeptSource<'a> {
    pub(crate) fn new(source: &'a mut dyn TensorSource) -> Self {
        KeptSource { source, components: Vec::new() }
    }
}

impl TensorSource for KeptSource<'_> {
    fn read_component(&mut self, wanted: &Component, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if !self.source.is_remote() {
            return self.source.read_component(wanted, take);
        }
        if let Some((_, kept)) = self.components.iter().find(|(role, _)| *role == wanted.role) {
            return take(kept);
        }
        let kept_bytes: usize = self.components.iter().map(|(_, bytes)| bytes.len()).sum();
        let limit = MAX_KEPT_BYTES - kept_bytes;
        let mut kept = Some(Vec::new());
        self.source.read_component(wanted, &mut |bytes| {
            kept = kept.take().filter(|kept| kept.len() + bytes.len() <= limit);
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(bytes);
            }
            take(bytes)
        })?;
        self.components.extend(kept.map(|kept| (wanted.role.clone(), kept)));
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    /// Counts how often it is read.
    struct Counting {
        piece: Vec<u8>,
        pieces: usize,
        reads: usize,
        is_remote: bool,
    }

    impl TensorSource for Counting {
        fn read_component(&mut self, _: &Component, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
            self.reads += 1;
            (0..self.pieces).try_for_each(|_| take(&self.piece))
        }

        fn is_remote(&self) -> bool {
            self.is_remote
        }
    }

    #[test]
    fn a_remote_component_is_read_once_unless_it_is_large() {
        let component = Component::raw(Dtype::U8, 0..0);
        for (pieces, is_remote, reads) in [(0, true, 1), (3, true, 1), (65, true, 2), (3, false, 2)] {
            let mut counting = Counting { piece: vec![7; 1 << 20], pieces, reads: 0, is_remote };
            let mut source = KeptSource::new(&mut counting);
            for _ in 0..2 {
                let mut read = 0;
                source
                    .read_component(&component, &mut |bytes| {
                        read += bytes.len();
                        Ok(())
                    })
                    .unwrap();
                assert_eq!(read, pieces << 20);
            }
            assert_eq!(counting.reads, reads);
        }
    }
}
