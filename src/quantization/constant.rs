//! A scheme one of whose parts is known, because it is small and stored in an encoding that ranges cannot be read of.

use super::grid::Grid;
use crate::dtype::Dtype;
use crate::index::{Bytes, Scheme};
use std::ops::Range;

/// A scheme, and the decoded bytes of one of its parts.
#[derive(Debug, Clone)]
pub(super) struct WithConstant {
    pub(super) scheme: Grid,
    pub(super) part: usize,
    pub(super) bytes: Vec<u8>,
}

impl Scheme for WithConstant {
    fn needs(&self, rows: &Range<u64>) -> Vec<Bytes> {
        let mut needs = self.scheme.needs(rows);
        if let Some(need) = needs.get_mut(self.part) {
            *need = Bytes::Range(0..0);
        }
        needs
    }

    fn decode(&self, rows: &Range<u64>, parts: &[&[u8]], to: &Dtype, out: &mut [f32]) {
        let mut parts = parts.to_vec();
        if let (Some(need), Some(part)) = (self.scheme.needs(rows).get(self.part), parts.get_mut(self.part)) {
            let Range { start, end } = need.bounds();
            *part = self.bytes.get(start as usize..end as usize).unwrap_or_default();
        }
        self.scheme.decode(rows, &parts, to, out);
    }
}
