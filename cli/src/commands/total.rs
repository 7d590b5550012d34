//! Sums of numbers that files state. Each number fits in 64 bits, but the sum may not.

use indicatif::{DecimalBytes, HumanCount};

/// A sum in 128 bits, which only 2^64 tensors could overflow.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Total(u128);

impl Total {
    pub(super) fn of(numbers: impl Iterator<Item = u64>) -> Self {
        Total(numbers.fold(0, |sum, number| sum.saturating_add(u128::from(number))))
    }

    /// `1,234`.
    pub(super) fn as_count(self) -> String {
        self.show(|number| HumanCount(number).to_string())
    }

    /// `1.23 kB`.
    pub(super) fn as_bytes(self) -> String {
        self.show(|number| DecimalBytes(number).to_string())
    }

    fn show(self, show: impl Fn(u64) -> String) -> String {
        match u64::try_from(self.0) {
            Ok(number) => show(number),
            Err(_) => format!("more than {}", show(u64::MAX)),
        }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::Total;

    #[test]
    fn formats_sums_beyond_64_bits() {
        assert_eq!(Total::of([1000, 234].into_iter()).as_count(), "1,234");
        assert_eq!(Total::of([1000, 234].into_iter()).as_bytes(), "1.23 kB");
        let huge = Total::of([u64::MAX, 1, u64::MAX].into_iter());
        assert_eq!(huge.as_count(), "more than 18,446,744,073,709,551,615");
        assert!(huge.as_bytes().starts_with("more than 18"));
    }
}
