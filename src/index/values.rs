//! Rules for the decoded values of components, which some formats have: zTensor 2 calls a file invalid that breaks
//! them.

use super::stored_end::StoredEnd;
use crate::error::{Result, malformed};

/// A rule for the decoded bytes of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueRule {
    /// Each byte is 0 or 1.
    Booleans,
    /// The upper half of the last byte is 0: it belongs to no element.
    ZeroLastHalf,
    /// The column indices of each row of a sparse tensor increase. They are checked with the others: see
    /// [`sparse`](super::sparse).
    IncreasingColumns,
}

/// Checks the decoded bytes of one component, in order.
#[derive(Debug)]
pub(crate) struct ValueCheck {
    rule: ValueRule,
    position: u64,
    last: u8,
    /// The first byte that breaks the rule, and its offset.
    wrong: Option<(u64, u8)>,
}

impl ValueCheck {
    /// `None` if the bytes of a component cannot break the rule on their own.
    pub(crate) fn new(rule: ValueRule) -> Option<Self> {
        let check = ValueCheck { rule, position: 0, last: 0, wrong: None };
        (rule != ValueRule::IncreasingColumns).then_some(check)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if self.rule == ValueRule::Booleans && self.wrong.is_none() {
            let found = (self.position..).zip(bytes).find(|(_, byte)| **byte > 1);
            self.wrong = found.map(|(at, byte)| (at, *byte));
        }
        self.position += bytes.len() as u64;
        self.last = bytes.last().copied().unwrap_or(self.last);
    }

    /// Ends, after the last byte.
    ///
    /// # Errors
    /// `FORMAT` if a value breaks the rule.
    pub(crate) fn finish(self, end: StoredEnd) -> Result<()> {
        if let Some((at, byte)) = self.wrong {
            return Err(malformed(format!("element {at} is {byte}, but a boolean must be 0 or 1")));
        }
        if self.rule == ValueRule::ZeroLastHalf && end == StoredEnd::Complete && self.last > 15 {
            return Err(malformed("the unused half of its last byte is not zero"));
        }
        Ok(())
    }
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn outcome(rule: ValueRule, pieces: &[&[u8]], end: StoredEnd) -> Option<String> {
        let mut check = ValueCheck::new(rule)?;
        pieces.iter().for_each(|piece| check.update(piece));
        check.finish(end).err().map(|error| error.what)
    }

    #[test]
    fn booleans_are_0_or_1() {
        assert_eq!(outcome(ValueRule::Booleans, &[&[0, 1], &[1]], StoredEnd::Complete), None);
        let wrong = outcome(ValueRule::Booleans, &[&[0, 1], &[2, 255]], StoredEnd::Anywhere).unwrap();
        assert_eq!(wrong, "element 2 is 2, but a boolean must be 0 or 1");
    }

    #[test]
    fn the_unused_half_of_the_last_byte_is_zero() {
        assert_eq!(outcome(ValueRule::ZeroLastHalf, &[&[0xff, 0x0f], &[]], StoredEnd::Complete), None);
        assert!(outcome(ValueRule::ZeroLastHalf, &[&[0x0f], &[0x10]], StoredEnd::Complete).is_some());
        let outcome = outcome(ValueRule::ZeroLastHalf, &[&[0x0f], &[0x10]], StoredEnd::Anywhere);
        assert_eq!(outcome, None, "not the last byte");
    }
}
