//! The error for a name that no tensor has: it suggests the most similar names.

use crate::error::{Error, ErrorKind};

/// The number of names that an error suggests.
const MAX_SUGGESTIONS: usize = 3;

/// The largest result of [`difference`].
const MAX_DIFFERENCE: usize = 7;

/// Longer names are compared only as a whole: the edit distance takes time in proportion to the square of the length.
const MAX_COMPARED_BYTES: usize = 200;

/// The error for a tensor that does not exist. `names` are those of the tensors of the model.
pub(crate) fn no_tensor<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Error {
    let error = Error::new(ErrorKind::NotFound, "the model has no tensor of this name").in_tensor(wanted);
    match did_you_mean(wanted, names) {
        Some(advice) => error.advise(advice),
        None => error,
    }
}

/// The advice with the names that are similar to a wanted one, if there are any.
pub(crate) fn did_you_mean<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let similar: Vec<_> = names.filter_map(|name| Some((difference(wanted, name)?, name))).collect();
    let ranked =
        (0..=MAX_DIFFERENCE).flat_map(|rank| similar.iter().filter(move |(difference, _)| *difference == rank));
    let mut advice = String::new();
    for (_, name) in ranked.take(MAX_SUGGESTIONS) {
        advice.push_str(if advice.is_empty() { "Did you mean \"" } else { "\" or \"" });
        advice.push_str(name);
    }
    (!advice.is_empty()).then(|| advice + "\"?")
}

/// How much two names differ; `None` if they are not similar. The same name in other case comes first, then one with
/// another prefix, as in `model.norm.weight` and `norm.weight`, then those that differ in a few characters.
fn difference(wanted: &str, name: &str) -> Option<usize> {
    let ends_with_part = |whole: &str, part: &str| {
        !part.is_empty() && whole.strip_suffix(part).is_some_and(|prefix| prefix.ends_with(['.', '/']))
    };
    if wanted.eq_ignore_ascii_case(name) {
        return Some(0);
    }
    if ends_with_part(name, wanted) || ends_with_part(wanted, name) {
        return Some(1);
    }
    let max = (wanted.len() / 6).clamp(1, MAX_DIFFERENCE - 1);
    let is_comparable = wanted.len() <= MAX_COMPARED_BYTES && wanted.len().abs_diff(name.len()) <= max;
    is_comparable.then(|| edit_distance(wanted.as_bytes(), name.as_bytes(), max))?.map(|distance| distance + 1)
}

/// The number of bytes to insert, remove or replace; `None` if there are more than `max`.
fn edit_distance(one: &[u8], other: &[u8], max: usize) -> Option<usize> {
    // Row by row of the table of distances between the beginnings of both.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, byte) in one.iter().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        let mut left = at + 1;
        next.push(left);
        for (pair, other) in row.windows(2).zip(other) {
            let [diagonal, above] = pair else { continue };
            left = (diagonal + usize::from(byte != other)).min(above + 1).min(left + 1);
            next.push(left);
        }
        if next.iter().all(|distance| *distance > max) {
            return None;
        }
        row = next;
    }
    row.last().copied().filter(|distance| *distance <= max)
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    fn advice(wanted: &str) -> Option<String> {
        let names = ["embeddings.weight", "model.norm.weight", "model.layers.0.bias", "model.layers.1.bias", "Größe"];
        no_tensor(wanted, names.into_iter()).context.advice.map(|advice| advice.to_string())
    }

    #[test]
    fn suggests_names_in_another_case_with_another_prefix_or_with_a_typing_error() {
        assert_eq!(advice("Embeddings.Weight").unwrap(), "Did you mean \"embeddings.weight\"?");
        assert_eq!(advice("norm.weight").unwrap(), "Did you mean \"model.norm.weight\"?");
        assert_eq!(advice("bert.embeddings.weight").unwrap(), "Did you mean \"embeddings.weight\"?");
        assert_eq!(advice("model.norm.wieght").unwrap(), "Did you mean \"model.norm.weight\"?");
        let both = "Did you mean \"model.layers.0.bias\" or \"model.layers.1.bias\"?";
        assert_eq!(advice("model.layers.7.bias").unwrap(), both);
    }

    #[test]
    fn suggests_nothing_that_is_not_similar() {
        for wanted in ["", "x", "decoder", "weight.", &"y".repeat(100_000)] {
            assert_eq!(advice(wanted), None, "{wanted:.20}");
        }
    }
}
