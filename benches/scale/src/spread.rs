//! How much points in time are spread.

use std::time::Duration;

/// The value that this part of the sorted values does not exceed, between 0 and 1.
pub(crate) fn quantile(sorted: &[Duration], part: f64) -> Duration {
    let at = (sorted.len().saturating_sub(1) as f64 * part).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

/// The time between the first and the last tenth of sorted times.
pub(crate) fn width(sorted: &[Duration]) -> Duration {
    quantile(sorted, 0.9) - quantile(sorted, 0.1)
}

/// The largest number of sorted times within a window of this length.
pub(crate) fn busiest(sorted: &[Duration], window: Duration) -> usize {
    let count = |start: &Duration| sorted.iter().filter(|time| (*start..*start + window).contains(time)).count();
    sorted.iter().map(count).max().unwrap_or(0)
}

/// The number of times in each consecutive interval of this length.
pub(crate) fn histogram(sorted: &[Duration], interval: Duration) -> Vec<usize> {
    let mut counts = Vec::new();
    for time in sorted {
        let at = (time.as_secs_f64() / interval.as_secs_f64()) as usize;
        counts.resize(counts.len().max(at + 1), 0);
        if let Some(count) = counts.get_mut(at) {
            *count += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_busiest_window_and_the_width() {
        let times: Vec<_> = [0, 90, 200, 250, 260, 299, 900].map(Duration::from_millis).to_vec();
        assert_eq!(busiest(&times, Duration::from_millis(100)), 4);
        assert_eq!(histogram(&times, Duration::from_millis(300)), [6, 0, 0, 1]);
        let even: Vec<_> = (0..=100).map(Duration::from_millis).collect();
        assert_eq!(width(&even), Duration::from_millis(80));
    }
}
