//! A list that grows without copying: a file may have millions of values, and a vector that grows needs three times
//! their size.

/// The number of items in a chunk.
const CHUNK_ITEMS: usize = 1024;

/// A list in chunks.
#[derive(Debug)]
pub(super) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
    length: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Chunked { chunks: Vec::new(), length: 0 }
    }
}

impl<T> Chunked<T> {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn push(&mut self, item: T) {
        if self.length.is_multiple_of(CHUNK_ITEMS) {
            // The first chunk grows: most files are small.
            let capacity = if self.length == 0 { 0 } else { CHUNK_ITEMS };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(item);
            self.length += 1;
        }
    }

    pub(super) fn get(&self, at: usize) -> Option<&T> {
        self.chunks.get(at / CHUNK_ITEMS)?.get(at % CHUNK_ITEMS)
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.chunks.get_mut(at / CHUNK_ITEMS)?.get_mut(at % CHUNK_ITEMS)
    }

    /// The items in order. Each chunk is released after its last item.
    pub(super) fn into_items(self) -> impl Iterator<Item = T> {
        self.chunks.into_iter().flatten()
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_positions() {
        let mut list = Chunked::default();
        (0..5000).for_each(|item| list.push(item));
        if let Some(item) = list.get_mut(4096) {
            *item = 7;
        }
        assert_eq!((list.len(), list.get(4095), list.get(4096), list.get(5000)), (5000, Some(&4095), Some(&7), None));
        assert_eq!(list.into_items().filter(|item| *item == 7).count(), 2);
    }
}
