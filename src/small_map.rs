//! A map of few entries. Each type of `HashMap` takes 2 KB of a module.

/// A map whose entries are searched one after another.
#[derive(Debug)]
pub(crate) struct SmallMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        SmallMap(Vec::new())
    }
}

impl<K: PartialEq, V> SmallMap<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.0.iter().find(|(other, _)| other == key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.iter_mut().find(|(other, _)| other == key).map(|(_, value)| value)
    }

    /// Adds an entry. The map must not have the key.
    pub(crate) fn add(&mut self, key: K, value: V) {
        self.0.push((key, value));
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.0.iter().position(|(other, _)| other == key)?;
        Some(self.0.swap_remove(place).1)
    }

    #[cfg(workers)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(workers)]
    pub(crate) fn first_key(&self) -> Option<&K> {
        self.0.first().map(|(key, _)| key)
    }
}
