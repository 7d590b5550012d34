//! Chooses where a graph is split: where few values pass, into parts with about the same number of bytes.

use super::part::Parts;
use super::types::Types;

/// The most parts of a graph. Each becomes a session of its own, which takes some 10 ms to create.
const MAX_PARTS: u64 = 16;

/// Parts with fewer bytes of weights would arrive faster than their sessions are created.
const MIN_PART_BYTES: u64 = 1 << 20;

/// A later position is preferred to one that as few values pass, if at most this share of a part is between them: small
/// weights, such as those of a normalization, belong to what is before them.
const NEAR: u64 = 16;

/// Where a graph is split.
pub(super) struct Cuts {
    /// Each before the node with this number.
    pub(super) positions: Vec<usize>,
    /// Why the graph is not split although it has many weights.
    pub(super) obstacle: Option<String>,
}

/// A position before the node with this number.
#[derive(Clone, Copy)]
struct Candidate {
    position: usize,
    passing: usize,
    /// The bytes of weights before it.
    bytes: u64,
}

pub(super) fn choose(parts: &Parts<'_>, types: &Types<'_>) -> Cuts {
    let candidates = candidates(parts, types);
    let total = sums(parts).last().copied().unwrap_or(0);
    let wanted = (total / MAX_PARTS).max(MIN_PART_BYTES);
    let mut positions = Vec::new();
    let mut begin = 0;
    let mut from = 0;
    while let Some(next) = best(candidates.get(from..).unwrap_or_default(), begin, wanted) {
        if total - next.bytes <= wanted / NEAR {
            break; // what is behind it arrives with what is before it
        }
        positions.push(next.position);
        begin = next.bytes;
        from = candidates.partition_point(|candidate| candidate.position <= next.position);
    }
    let obstacle = (positions.is_empty() && total >= 2 * wanted).then(|| obstacle(parts, types)).flatten();
    Cuts { positions, obstacle }
}

/// The best position for the end of a part that begins after `begin` bytes of weights.
fn best(candidates: &[Candidate], begin: u64, wanted: u64) -> Option<Candidate> {
    let first = candidates.partition_point(|candidate| candidate.bytes - begin < wanted);
    let candidates = candidates.get(first..)?;
    let mut best = *candidates.first()?;
    let end = best.bytes.saturating_add(wanted);
    for candidate in candidates.iter().take_while(|candidate| candidate.bytes <= end) {
        let is_near = candidate.bytes - best.bytes <= wanted / NEAR;
        if candidate.passing < best.passing || (candidate.passing == best.passing && is_near) {
            best = *candidate;
        }
    }
    Some(best)
}

/// The positions that only values pass which can be the input of a session.
fn candidates(parts: &Parts<'_>, types: &Types<'_>) -> Vec<Candidate> {
    let count = parts.node_count();
    let (mut passing, mut unknown) = (vec![0_isize; count + 1], vec![0_isize; count + 1]);
    for (name, range) in parts.passing() {
        let add = |counts: &mut Vec<isize>| {
            for (at, by) in [(range.start + 1, 1), (range.end + 1, -1)] {
                if let Some(count) = counts.get_mut(at) {
                    *count += by;
                }
            }
        };
        add(&mut passing);
        if !types.can_pass(name) {
            add(&mut unknown);
        }
    }
    let (mut now, mut now_unknown) = (0, 0);
    let counts = passing.iter().zip(&unknown).map(|(passing, unknown)| {
        now += passing;
        now_unknown += unknown;
        (now, now_unknown)
    });
    let sums = [0].into_iter().chain(sums(parts));
    let positions = counts.zip(sums).enumerate().take(count).skip(1);
    let known = positions.filter(|(_, ((_, unknown), _))| *unknown == 0);
    let candidate = |(position, ((passing, _), bytes)): (usize, ((isize, isize), u64))| Candidate {
        position,
        passing: usize::try_from(passing).unwrap_or(0),
        bytes,
    };
    known.map(candidate).collect()
}

/// The bytes of weights that are needed up to each node.
fn sums(parts: &Parts<'_>) -> Vec<u64> {
    let mut sum = 0_u64;
    let add = |bytes: &u64| {
        sum = sum.saturating_add(*bytes);
        sum
    };
    parts.new_bytes().iter().map(add).collect()
}

/// Names the value that cannot pass, of those the one that is needed the longest.
fn obstacle(parts: &Parts<'_>, types: &Types<'_>) -> Option<String> {
    let unknown = parts.passing().filter(|(name, _)| !types.can_pass(name));
    let (name, _) = unknown.max_by_key(|(name, range)| (range.len(), *name))?;
    let what = if types.of_value(name).is_some() { "cannot pass between sessions" } else { "is not known" };
    Some(format!("the type of \"{name}\", an output of {}, {what}", parts.operator_of(name)))
}
