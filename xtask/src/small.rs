//! A small model of trained weights: two layers of the demo model, for a demo that fits into an archive.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

/// The name of the model.
pub const NAME: &str = "two layers of all-MiniLM-L6-v2";

/// The entry of the published model.
pub const MANIFEST: &str = "all-MiniLM-L6-v2-two-layers.zt.index.json";

/// The name of the SafeTensors file.
pub const ORIGINAL: &str = "all-MiniLM-L6-v2-two-layers.safetensors";

/// Three shards.
pub const SHARD_SIZE: &str = "5MB";

/// The beginnings of the names of its tensors.
const LAYERS: [&str; 2] = ["encoder.layer.0.", "encoder.layer.1."];

/// Copies the tensors of these layers from one SafeTensors file to another.
pub fn write(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    Ok(fs::write(to, selected(&bytes, |name| LAYERS.iter().any(|layer| name.starts_with(layer)))?)?)
}

/// A SafeTensors file with some of the tensors of another one.
fn selected(file: &[u8], is_wanted: impl Fn(&str) -> bool) -> Result<Vec<u8>> {
    let (length, rest) = file.split_first_chunk().context("the file has no header")?;
    let length = usize::try_from(u64::from_le_bytes(*length))?;
    let (header, data) = rest.split_at_checked(length).context("the header is truncated")?;
    let mut header: Map<String, Value> = serde_json::from_slice(header)?;
    header.retain(|name, _| is_wanted(name));
    let mut kept = Vec::new();
    for entry in header.values_mut() {
        let place = entry.get_mut("data_offsets").context("a tensor has no place")?;
        let [start, end]: [usize; 2] = serde_json::from_value(place.take())?;
        let begin = kept.len();
        kept.extend_from_slice(data.get(start..end).context("the data is outside of the file")?);
        *place = json!([begin, kept.len()]);
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok([&(header.len() as u64).to_le_bytes(), header.as_slice(), &kept].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expected;

    #[test]
    fn the_selected_tensors_keep_their_bytes() {
        let header = json!({
            "a": { "dtype": "U8", "shape": [2], "data_offsets": [0, 2] },
            "b": { "dtype": "U8", "shape": [3], "data_offsets": [2, 5] },
            "c": { "dtype": "U8", "shape": [1], "data_offsets": [5, 6] },
        });
        let header = header.to_string();
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), b"aabbbc"].concat();
        let folder = tempfile::tempdir().unwrap();
        let [all, some] = ["all", "some"].map(|name| folder.path().join(name));
        fs::write(&all, &file).unwrap();
        fs::write(&some, selected(&file, |name| name != "a").unwrap()).unwrap();
        assert_eq!(expected::tensors(&some).unwrap(), expected::tensors(&all).unwrap()[1..]);
    }
}
