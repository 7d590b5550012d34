//! Long metadata arrays, such as tokenizer vocabularies with the scores and types of their tokens.

use serde_json::Value;

/// A long metadata array as a plain vector. As JSON values, each item would take at least 48 bytes. Building them would
/// dominate the time and the memory of reading a header.
#[derive(Debug, Clone, PartialEq)]
pub enum LongArray {
    /// Strings.
    Strings(Strings),
    /// Floating-point numbers, all finite.
    F32(Vec<f32>),
    /// Signed integers.
    I32(Vec<i32>),
    /// Unsigned integers.
    U32(Vec<u32>),
}

/// A list of strings in one allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    /// The end of each string in `text`.
    ends: Vec<usize>,
}

impl LongArray {
    /// The number of items.
    #[cfg(npm)]
    pub(crate) fn len(&self) -> usize {
        match self {
            LongArray::Strings(strings) => strings.ends.len(),
            LongArray::F32(numbers) => numbers.len(),
            LongArray::I32(numbers) => numbers.len(),
            LongArray::U32(numbers) => numbers.len(),
        }
    }
}

impl Strings {
    /// Appends a string.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// Releases unused capacity.
    pub fn shrink_to_fit(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// The strings in chunks of `count` (at least 1). Each item is the concatenated text of a chunk and an iterator
    /// over its strings.
    pub fn chunks(&self, count: usize) -> impl Iterator<Item = (&str, impl Iterator<Item = &str>)> {
        let mut start = 0;
        self.ends.chunks(count.max(1)).map(move |ends| {
            let mut at = start;
            start = ends.last().copied().unwrap_or(at);
            let strings = ends.iter().map(move |&end| {
                let string = self.text.get(at..end).unwrap_or_default();
                at = end;
                string
            });
            (self.text.get(at..start).unwrap_or_default(), strings)
        })
    }

    /// An iterator over the strings.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.chunks(usize::MAX).flat_map(|(_, strings)| strings)
    }
}

impl From<&LongArray> for Value {
    fn from(array: &LongArray) -> Value {
        match array {
            LongArray::Strings(strings) => strings.iter().collect(),
            LongArray::F32(numbers) => numbers.iter().map(|number| f64::from(*number)).collect(),
            LongArray::I32(numbers) => numbers.iter().copied().collect(),
            LongArray::U32(numbers) => numbers.iter().copied().collect(),
        }
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_any_size_contain_the_strings_in_order() {
        let all = ["a", "", "naïve ✓", "", "x y"];
        let mut strings = Strings::default();
        all.iter().for_each(|text| strings.push(text));
        strings.shrink_to_fit();
        assert!(strings.iter().eq(all));
        for count in 0..7 {
            let chunks: Vec<_> = strings.chunks(count).map(|(text, each)| (text, each.collect::<Vec<_>>())).collect();
            assert!(chunks.iter().all(|(text, each)| *text == each.concat()), "{chunks:?}");
            assert_eq!(chunks.iter().flat_map(|(_, each)| each.clone()).collect::<Vec<_>>(), all);
        }
        assert_eq!(Strings::default().iter().count(), 0);
    }
}
