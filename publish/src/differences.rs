//! Writes the differences of tensors to those of the same names in the previous revision, as a file of their own: after
//! a fine-tune, every weight has changed a little, so that no bytes are equal, but the differences are small numbers.
//!
//! The tensors of both revisions are read as they were published. A difference is kept if it takes clearly less than
//! the tensor itself.

use super::destination::Destination;
use super::entry::Document;
use super::files::FileWriter;
use super::previous::Previous;
use super::record::FileRecord;
use crate::object::ObjectSource;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use weightstream::Result;
use weightstream::internals::codec::difference;
use weightstream::internals::codec::digest::digest_of;
use weightstream::internals::format::ztensor;
use weightstream::internals::index::{Component, Digest, Tensor};
use weightstream::internals::loader::Options;
use weightstream::internals::native::{Reader, RemoteReader};
use weightstream::internals::progress::Progress;
use weightstream::internals::publication::{BEFORE, DIFFERENCES, KEY, MAX_STEPS, Publication};
use weightstream::internals::write::{Compression, ConvertOptions, check_cancelled, convert_with};

/// The extension of the file: that of zTensor.
const EXTENSION: &str = "zt";

/// The name of the file of a difference that is not compressed yet, in the temporary folder.
const RAW: &str = "differences.safetensors";

/// The file with the differences, and what the entry states about them.
pub(super) struct Published {
    pub(super) document: Document,
    pub(super) stated: Value,
}

/// A difference that was computed.
struct Change {
    name: String,
    shape: Vec<u64>,
    /// The number of bytes of an element.
    width: u64,
    byte_length: u64,
    /// The number of bytes that the tensor itself takes.
    stored_length: u64,
    /// The file with the base, and the SHA-256 of the base and of the tensor.
    base_file: String,
    base: String,
    result: String,
}

/// Computes the differences, and sends those that are worth it. `None` if there are none.
///
/// # Errors
/// Those of reading both revisions, and of the store; `IO` if `progress` cancels.
pub(super) fn publish(
    writer: &mut FileWriter,
    records: &[FileRecord],
    previous: &Previous,
    progress: &(dyn Progress + Sync),
) -> Result<Option<Published>> {
    let entry = previous.read_entry(writer.destination)?;
    let publication = Publication::of_entry(&entry)?.unwrap_or_default();
    let digests: HashMap<_, _> = publication.files().map(|(name, _, digest)| (name, digest.to_string())).collect();
    let raw = writer.temporary_path(RAW);
    let mut data = BufWriter::new(tempfile::tempfile()?);
    let mut changes = Vec::new();
    let mut bases = Models { destination: writer.destination, open: HashMap::new() };
    for record in records.iter().filter(|record| !previous.has_file(&record.name)) {
        let new = open(writer.destination, &record.name)?;
        for tensor in new.tensors() {
            check_cancelled(progress)?;
            // A client finds a file in its cache by the digest.
            let base_file = previous.file_of(tensor).filter(|file| digests.contains_key(file.as_str()));
            let Some(base_file) = base_file else { continue };
            if let Some((change, bytes)) = bases.change(&new, tensor, &base_file)? {
                data.write_all(&bytes)?;
                changes.push(change);
            }
        }
    }
    if changes.is_empty() {
        return Ok(None);
    }
    let mut data = data.into_inner().map_err(|error| error.into_error())?;
    let small = writer.temporary_path("differences.zt");
    let all: BTreeSet<usize> = (0..changes.len()).collect();
    let lengths = compress(&mut data, &changes, &all, &raw, &small, progress)?;
    let pays = |at: &usize| {
        let (change, length) = (changes.get(*at), lengths.get(*at).copied().unwrap_or(u64::MAX));
        change.is_some_and(|change| length <= change.stored_length / 10 * 9)
    };
    let chosen: BTreeSet<usize> = all.iter().copied().filter(pays).collect();
    if chosen.is_empty() {
        return Ok(None);
    }
    if chosen.len() < all.len() {
        compress(&mut data, &changes, &chosen, &raw, &small, progress)?;
    }
    let document = writer.send_differences(&small, EXTENSION)?;
    let chosen: Vec<_> = chosen.iter().filter_map(|at| changes.get(*at)).collect();
    let stated = stated(&document, &chosen, &digests, &entry);
    Ok(Some(Published { document, stated }))
}

/// What the entry states: see the library's `index::differences`. `digests` are those of the files of the previous
/// revision, whose entry is `entry`.
fn stated(document: &Document, chosen: &[&Change], digests: &HashMap<&str, String>, entry: &[u8]) -> Value {
    let mut bases = BTreeMap::new();
    let mut tensors = Map::new();
    for Change { name, base_file, base, result, .. } in chosen {
        let Some(digest) = digests.get(base_file.as_str()) else { continue };
        bases.insert(base_file, digest);
        tensors.insert(name.clone(), json!({ "base": [base_file, base], "sha256": result }));
    }
    let Document { name, byte_length, sha256 } = document;
    let mut stated = json!({ "file": name, "size": byte_length, "sha256": sha256, "bases": bases, "tensors": tensors });
    let entry: Value = serde_json::from_slice(entry).unwrap_or_default(); // it was parsed before
    if let Some(before) = entry.get(KEY).and_then(|key| key.get(DIFFERENCES)) {
        let mut before = before.clone();
        limit(&mut before, MAX_STEPS - 1);
        stated.as_object_mut().map(|stated| stated.insert(BEFORE.to_owned(), before));
    }
    stated
}

/// Removes the differences that go back more than `max_steps` revisions.
fn limit(differences: &mut Value, max_steps: usize) {
    let Some(stated) = differences.as_object_mut() else { return };
    match stated.get_mut(BEFORE) {
        Some(before) if max_steps > 1 => limit(before, max_steps - 1),
        _ => drop(stated.remove(BEFORE)),
    }
}

/// The files of the previous revision.
struct Models<'a> {
    destination: &'a Destination,
    open: HashMap<String, RemoteReader<ObjectSource>>,
}

impl Models<'_> {
    /// The difference of a tensor to that of the same name in a file. `None` if its elements have none.
    fn change(
        &mut self,
        new: &RemoteReader<ObjectSource>,
        tensor: &Tensor,
        base_file: &str,
    ) -> Result<Option<(Change, Vec<u8>)>> {
        let width = tensor.dtype.block().filter(|block| block.elements == 1).map(|block| block.bytes);
        let Some(width) = width.filter(|width| matches!(width, 1 | 2 | 4 | 8)) else { return Ok(None) };
        if !self.open.contains_key(base_file) {
            self.open.clear(); // tensors of one file usually follow each other
            self.open.insert(base_file.to_owned(), open(self.destination, base_file)?);
        }
        let Some(old) = self.open.get(base_file) else { return Ok(None) };
        let (Some(mut bytes), Some(base)) = (dense(new, &tensor.name)?, dense(old, &tensor.name)?) else {
            return Ok(None);
        };
        if bytes.is_empty() {
            return Ok(None); // a difference would take no less
        }
        let change = Change {
            name: tensor.name.clone(),
            shape: tensor.shape.to_vec(),
            width,
            byte_length: bytes.len() as u64,
            stored_length: tensor.stored_length(),
            base_file: base_file.to_owned(),
            base: sha256(&base),
            result: sha256(&bytes),
        };
        Ok(difference::encode(&mut bytes, &base, width).then_some((change, bytes)))
    }
}

/// Writes some of the differences to a zTensor file. Returns the stored length of each in it, by its number.
fn compress(
    data: &mut File,
    changes: &[Change],
    chosen: &BTreeSet<usize>,
    raw: &Path,
    small: &Path,
    progress: &(dyn Progress + Sync),
) -> Result<Vec<u64>> {
    write_raw(data, changes, chosen, raw)?;
    let options = ConvertOptions::default().format(Some(&ztensor::FORMAT)).compression(Compression::Auto);
    convert_with(&Reader::open(raw)?, small, &options, &Quiet(progress))?;
    let small = Reader::open(small)?;
    let lengths = small.tensors().iter().map(|tensor| (tensor.name.as_str(), tensor.stored_length()));
    let lengths: HashMap<_, _> = lengths.collect();
    Ok(changes.iter().map(|change| lengths.get(change.name.as_str()).copied().unwrap_or(0)).collect())
}

/// Writes differences as a SafeTensors file of unsigned integers.
fn write_raw(data: &mut File, changes: &[Change], chosen: &BTreeSet<usize>, raw: &Path) -> Result<()> {
    let chosen = |at: &usize| chosen.contains(at);
    let (mut header, mut end) = (Map::new(), 0_u64);
    for (_, change) in changes.iter().enumerate().filter(|(at, _)| chosen(at)) {
        let start = end;
        end += change.byte_length;
        let dtype = format!("U{}", 8 * change.width);
        let entry = json!({ "dtype": dtype, "shape": change.shape, "data_offsets": [start, end] });
        header.insert(change.name.clone(), entry);
    }
    let header = Value::from(header).to_string();
    let mut out = BufWriter::new(File::create(raw)?);
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    let mut position = 0;
    for (at, change) in changes.iter().enumerate() {
        if chosen(&at) {
            data.seek(SeekFrom::Start(position))?;
            std::io::copy(&mut (&mut *data).take(change.byte_length), &mut out)?;
        }
        position += change.byte_length;
    }
    out.flush()?;
    Ok(())
}

/// The progress of conversions that are a part of publishing: only whether it was cancelled.
struct Quiet<'a>(&'a (dyn Progress + Sync));

impl Progress for Quiet<'_> {
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// Opens one published file of tensors.
fn open(destination: &Destination, name: &str) -> Result<RemoteReader<ObjectSource>> {
    let source = ObjectSource::in_store(Arc::clone(&destination.store), destination.key_of(name)?);
    RemoteReader::open_source(source, Options::default())
}

/// The dense bytes of a tensor; `None` if it has several components.
fn dense(reader: &RemoteReader<ObjectSource>, name: &str) -> Result<Option<Vec<u8>>> {
    let Some(tensor) = reader.tensors().iter().find(|tensor| tensor.name == name) else { return Ok(None) };
    let [Component { role, .. }] = tensor.components.as_slice() else { return Ok(None) };
    let mut bytes = Vec::new();
    reader.read_pieces(tensor, role, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(Some(bytes))
}

fn sha256(bytes: &[u8]) -> String {
    digest_of(bytes, Digest::Sha256([0; 32])).to_string()
}
