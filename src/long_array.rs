//! Long arrays of the metadata: the vocabularies of tokenizers, with the scores and the types of their tokens.

use serde_json::Value;

/// An array as plain vectors. As JSON each item would take 48 bytes and more, most of the time of reading a head and
/// nearly all of its memory.
#[derive(Debug, Clone, PartialEq)]
pub enum LongArray {
    /// Strings.
    Strings(Strings),
    /// Floating-point numbers, all finite.
    F32(Vec<f32>),
    /// Integers.
    I32(Vec<i32>),
    /// Integers.
    U32(Vec<u32>),
}

/// Strings in one memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    /// Where each ends in `text`.
    ends: Vec<usize>,
}

impl LongArray {
    /// How many items it has.
    #[cfg(all(feature = "js", target_arch = "wasm32"))]
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
    /// Adds a string.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// Gives back the memory that no string is in.
    pub fn shrink_to_fit(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// The strings, `count` at a time and at least one: the text of all of them, and each.
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

    /// Each of the strings.
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

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn strings_come_in_chunks_of_any_size_as_they_were_added() {
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
