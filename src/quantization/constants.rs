//! A scheme with parts whose bytes are known before it is used: an attribute states them, or they are small and stored
//! in an encoding that cannot be read by ranges.

use super::grid::Grid;
use crate::dtype::Dtype;
use crate::index::{Bytes, Scheme};
use std::ops::Range;

/// A scheme, and the bytes of some of its parts.
#[derive(Debug, Clone)]
pub(super) struct WithConstants {
    pub(super) scheme: Grid,
    /// The number of components of the tensor.
    pub(super) stored: usize,
    /// The parts that are known, by their numbers. Those of components are not read.
    pub(super) known: Vec<(usize, Vec<u8>)>,
}

impl Scheme for WithConstants {
    fn needs(&self, rows: &Range<u64>) -> Vec<Bytes> {
        let mut needs = self.scheme.needs(rows);
        for (part, _) in &self.known {
            if let Some(need) = needs.get_mut(*part) {
                *need = Bytes::Range(0..0);
            }
        }
        needs.truncate(self.stored);
        needs
    }

    fn decode(&self, rows: &Range<u64>, parts: &[&[u8]], to: &Dtype, out: &mut [f32]) {
        let needs = self.scheme.needs(rows);
        let mut parts = parts.to_vec();
        parts.resize(parts.len().max(needs.len()), &[]);
        for (part, bytes) in &self.known {
            if let (Some(need), Some(part)) = (needs.get(*part), parts.get_mut(*part)) {
                let Range { start, end } = need.bounds();
                *part = bytes.get(start as usize..end as usize).unwrap_or_default();
            }
        }
        self.scheme.decode(rows, &parts, to, out);
    }
}
