//! Converts and sends the files of tensors: the next one is converted while earlier ones are sent.

use super::destination::Destination;
use super::entry::Document;
use super::inspect;
use super::owned::Owned;
use super::record::{FileRecord, Fingerprint, record_name};
use super::source_digest::Digesting;
use super::upload::{self, Found, Kind, is_foreign};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::task::JoinSet;
use weightstream::internals::codec::digest::digest_of;
use weightstream::internals::index::{Digest, Tensor};
use weightstream::internals::output::{Existing, FinishedFile, PartialFile, ShardFile, content_name};
use weightstream::internals::progress::Progress;
use weightstream::internals::write::{Input, Sizes};
use weightstream::internals::write::{Plan, Sources, check_cancelled};
use weightstream::{Error, ErrorKind, Result};

/// The number of files that are sent at the same time, which is also the number of temporary files.
pub(super) const MAX_UPLOADS: usize = 4;

/// Writes the files of a plan to a destination.
pub(super) struct FileWriter<'a> {
    pub(super) destination: &'a Destination,
    plan: &'a Plan<'a>,
    sources: Sources<'a>,
    /// Computes the digests of the input's bytes, if its version is unknown.
    digesting: Option<&'a Digesting<'a>>,
    fingerprint: Fingerprint,
    temporary: TempDir,
    pub(super) owned: Owned,
    /// The numbers of the files that were sent, or at least their records, and their names if they were sent.
    arrived: Vec<(usize, Option<String>)>,
    sent_bytes: u64,
}

/// A file that has arrived.
struct Arrived {
    number: usize,
    record: FileRecord,
    was_sent: bool,
}

impl<'a> FileWriter<'a> {
    pub(super) fn new(
        destination: &'a Destination,
        input: &'a dyn Input,
        digesting: Option<&'a Digesting<'a>>,
        plan: &'a Plan<'a>,
        fingerprint: Fingerprint,
        owned: Owned,
    ) -> Result<Self> {
        let temporary = tempfile::Builder::new().prefix("weightstream-").tempdir()?;
        let sources = Sources::of(digesting.map_or(input, |digesting| digesting));
        let (arrived, sent_bytes) = (Vec::new(), 0);
        Ok(FileWriter { destination, plan, sources, digesting, fingerprint, temporary, owned, arrived, sent_bytes })
    }

    /// The path of a temporary file.
    pub(super) fn temporary_path(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }

    /// The numbers of files and bytes that were sent.
    pub(super) fn sent(&self) -> (usize, u64) {
        (self.arrived.iter().filter(|(_, name)| name.is_some()).count(), self.sent_bytes)
    }

    /// Deletes what this run has sent, because the input is damaged. Ignores errors: without an entry, the files are
    /// not part of a model.
    pub(super) fn withdraw(&self) {
        let Destination { store, runtime, .. } = self.destination;
        for (number, name) in &self.arrived {
            for name in name.iter().chain([&self.record_name(*number)]) {
                if let Ok(key) = self.destination.key_of(name) {
                    runtime.block_on(upload::delete(store, &key)).ok();
                }
            }
        }
    }

    /// The size of these files' tensors in the input, in bytes.
    pub(super) fn source_bytes(&self, files: Range<usize>) -> u64 {
        files.map(|number| self.source_bytes_of(number)).fold(0, u64::saturating_add)
    }

    /// Makes sure that these files exist at the destination, and returns their records in order.
    ///
    /// # Errors
    /// Those of the conversion and of the store.
    pub(super) fn write(&mut self, files: Range<usize>, progress: &(dyn Progress + Sync)) -> Result<Vec<FileRecord>> {
        let mut records = BTreeMap::new();
        let mut uploads = JoinSet::new();
        for number in files {
            check_cancelled(progress)?;
            if let Some(record) = self.existing(number)? {
                progress.advanced(self.source_bytes_of(number));
                records.insert(number, record);
                continue;
            }
            while uploads.len() >= MAX_UPLOADS {
                self.take_next(&mut uploads, &mut records)?;
            }
            let (file, record) = self.convert(number, progress)?;
            self.start_upload(&mut uploads, number, file, record)?;
        }
        while !uploads.is_empty() {
            self.take_next(&mut uploads, &mut records)?;
        }
        Ok(records.into_values().collect())
    }

    /// The records of all files, which were published by several machines.
    ///
    /// # Errors
    /// `NOT_FOUND` if a file has no record; `INVALID_ARGUMENT` if one belongs to another conversion, or to other bytes
    /// of the input.
    pub(super) fn recorded(&mut self, progress: &(dyn Progress + Sync)) -> Result<Vec<FileRecord>> {
        let mut records = Vec::new();
        let mut missing = Vec::new();
        for number in 0..self.plan.shards.len() {
            match self.record(number)? {
                Some(record) if record.fingerprint == self.fingerprint && self.is_there(&record)? => {
                    if record.source != self.read_source(number, progress)? {
                        return Err(self.of_another_conversion(number, &record));
                    }
                    records.push(record);
                }
                Some(record) if record.fingerprint == self.fingerprint => missing.push(number),
                Some(record) => return Err(self.of_another_conversion(number, &record)),
                None => missing.push(number),
            }
        }
        let Some(first) = missing.first() else { return Ok(records) };
        let (count, name) = (self.plan.shards.len(), self.record_place(*first));
        let what =
            format!("{} of the {count} files were not published; the first is number {}", missing.len(), first + 1);
        let error = Error::new(ErrorKind::NotFound, what).in_file(&name);
        Err(error.advise("Run the missing parts (`Share::Part`) with the same input and options, then merge again."))
    }

    /// Sends a file beside the files of tensors, unless it exists.
    pub(super) fn send_document(&mut self, name: &str, bytes: Vec<u8>) -> Result<Document> {
        let Destination { store, runtime, .. } = self.destination;
        self.destination.refuse_input(name, self.sources.input)?;
        let sha256 = digest_of(&bytes, Digest::Sha256([0; 32])).to_string();
        let (byte_length, path) = (bytes.len() as u64, self.destination.key_of(name)?);
        let existing = self.owned.existing(name);
        match runtime.block_on(upload::find(store, &path))? {
            Found::Bytes(found) if found == bytes => {}
            Found::Bytes(_) | Found::TooLarge if existing == Existing::Keep => {
                return Err(is_foreign(&store.url_of(&path)));
            }
            _ => runtime.block_on(upload::send_bytes(store, &path, bytes, Kind::Immutable, existing))?,
        }
        self.owned.add(name);
        Ok(Document { name: name.to_owned(), byte_length, sha256 })
    }

    /// Sends a file with differences to the previous revision, unless it exists.
    pub(super) fn send_differences(&mut self, file: &Path, file_extension: &str) -> Result<Document> {
        let Destination { store, runtime, entry, extension, .. } = self.destination;
        let sha256 = inspect::sha256_of(file)?;
        let name = content_name(Path::new(entry), extension, &sha256, file_extension)?;
        self.destination.refuse_input(&name, self.sources.input)?;
        let (path, existing) = (self.destination.key_of(&name)?, self.owned.existing(&name));
        let byte_length = std::fs::metadata(file)?.len();
        let sending = upload::send_file(store, &path, file, Kind::Immutable, existing);
        if runtime.block_on(sending)? {
            self.sent_bytes += byte_length;
            self.owned.add(&name);
        }
        Ok(Document { name, byte_length, sha256: sha256.to_string() })
    }

    /// Sends the entry, which replaces that of the previous revision.
    pub(super) fn send_entry(&self, entry: &[u8]) -> Result<()> {
        let Destination { store, runtime, entry: name, .. } = self.destination;
        let (path, existing) = (self.destination.key_of(name)?, self.owned.existing_entry());
        runtime.block_on(upload::send_bytes(store, &path, entry.to_vec(), Kind::Mutable, existing))
    }

    /// Makes the entry of the previous revision live again, or deletes the new one if there was none.
    pub(super) fn restore_entry(&self) -> Result<()> {
        let Destination { store, runtime, entry: name, .. } = self.destination;
        let path = self.destination.key_of(name)?;
        match &self.owned.entry {
            Some(entry) => {
                let entry = entry.clone();
                runtime.block_on(upload::send_bytes(store, &path, entry, Kind::Mutable, Existing::Replace))
            }
            None => runtime.block_on(upload::delete(store, &path)),
        }
    }

    /// Deletes the records, which are not needed once the entry exists.
    pub(super) fn remove_records(&self, warnings: &mut Vec<String>) {
        let Destination { store, runtime, .. } = self.destination;
        for number in 0..self.plan.shards.len() {
            let name = self.record_name(number);
            let deleted = self.destination.key_of(&name).and_then(|key| runtime.block_on(upload::delete(store, &key)));
            if let Err(error) = deleted {
                warnings.push(format!("{name} cannot be deleted: {}", error.what));
                return;
            }
        }
    }

    /// The record of a file that an earlier run of the same conversion has published.
    fn existing(&mut self, number: usize) -> Result<Option<FileRecord>> {
        let record = self.record(number)?.filter(|record| record.fingerprint == self.fingerprint);
        if self.fingerprint.input.is_none() {
            return Ok(None); // the input may have changed
        }
        match record {
            Some(record) if self.is_there(&record)? => Ok(Some(record)),
            _ => Ok(None),
        }
    }

    /// The record of a file, whose conversion may be another one.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a file of others in its place.
    fn record(&mut self, number: usize) -> Result<Option<FileRecord>> {
        let Destination { store, runtime, .. } = self.destination;
        let name = self.record_name(number);
        self.destination.refuse_input(&name, self.sources.input)?;
        let path = self.destination.key_of(&name)?;
        let record: Option<FileRecord> = match runtime.block_on(upload::find(store, &path))? {
            Found::Nothing => return Ok(None),
            Found::Bytes(text) => serde_json::from_slice(&text).ok(),
            Found::TooLarge => None,
        };
        match &record {
            Some(record) => self.owned.add(&record.name),
            None if self.owned.may_replace_record() => {}
            None => return Err(is_foreign(&store.url_of(&path))),
        }
        Ok(record)
    }

    fn is_there(&self, record: &FileRecord) -> Result<bool> {
        let Destination { store, runtime, .. } = self.destination;
        let path = self.destination.key_of(&record.name)?;
        Ok(runtime.block_on(upload::length_of(store, &path))? == Some(record.byte_length))
    }

    /// Reads the tensors of a file from an input of unknown version, and returns their digest.
    fn read_source(&self, number: usize, progress: &(dyn Progress + Sync)) -> Result<Option<String>> {
        let Some(digesting) = self.digesting else { return Ok(None) };
        let tensors = self.plan.shards.get(number).copied().unwrap_or_default();
        digesting.read(tensors, &self.sources, progress)?;
        digesting.digest(tensors, &self.sources).map(Some)
    }

    /// Writes a file of tensors to the temporary folder.
    fn convert(&self, number: usize, progress: &(dyn Progress + Sync)) -> Result<(FinishedFile, FileRecord)> {
        let Destination { entry, extension, .. } = self.destination;
        let file = PartialFile::create_transient(&self.temporary_path(&number.to_string()))?;
        let file = self.plan.write_shard(number, file, &self.sources, progress, &mut Sizes::default())?.unlocked();
        let content = inspect::content(&file)?;
        let name = content_name(Path::new(entry), extension, &content.sha256, extension)?;
        let tensors = self.plan.shards.get(number).copied().unwrap_or_default();
        let source = self.digesting.map(|digesting| digesting.digest(tensors, &self.sources)).transpose()?;
        let record = FileRecord {
            fingerprint: self.fingerprint.clone(),
            source,
            name,
            byte_length: file.byte_length(),
            crc32: file.crc32(),
            sha256: content.sha256.to_string(),
            states: content.states,
            tensors: content.tensors,
            dense: content.dense,
        };
        Ok((file, record))
    }

    /// Sends a file, then its record.
    fn start_upload(
        &self,
        uploads: &mut JoinSet<Result<Arrived>>,
        number: usize,
        file: FinishedFile,
        record: FileRecord,
    ) -> Result<()> {
        let Destination { store, runtime, .. } = self.destination;
        self.destination.refuse_input(&record.name, self.sources.input)?;
        let (path, record_path) =
            (self.destination.key_of(&record.name)?, self.destination.key_of(&self.record_name(number))?);
        let (store, existing) = (Arc::clone(store), self.owned.existing(&record.name));
        let upload = async move {
            let was_sent = upload::send_file(&store, &path, file.temporary_path(), Kind::Immutable, existing).await?;
            let text =
                serde_json::to_vec(&record).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
            upload::send_bytes(&store, &record_path, text, Kind::Mutable, Existing::Replace).await?;
            Ok(Arrived { number, record, was_sent })
        };
        uploads.spawn_on(upload, runtime.handle());
        Ok(())
    }

    /// Waits until one of the files has arrived.
    fn take_next(
        &mut self,
        uploads: &mut JoinSet<Result<Arrived>>,
        records: &mut BTreeMap<usize, FileRecord>,
    ) -> Result<()> {
        let Some(arrived) = self.destination.runtime.block_on(uploads.join_next()) else { return Ok(()) };
        let lost = |error| Error::new(ErrorKind::Internal, format!("an upload ended unexpectedly: {error}"));
        let Arrived { number, record, was_sent } = arrived.map_err(lost)??;
        if was_sent {
            self.owned.add(&record.name);
            self.sent_bytes += record.byte_length;
        }
        self.arrived.push((number, was_sent.then(|| record.name.clone())));
        records.insert(number, record);
        Ok(())
    }

    fn source_bytes_of(&self, number: usize) -> u64 {
        let tensors = self.plan.shards.get(number).copied().unwrap_or_default();
        let bytes = |tensor| self.sources.get(tensor).ok().and_then(Tensor::byte_length);
        tensors.iter().filter_map(bytes).fold(0, u64::saturating_add)
    }

    fn of_another_conversion(&self, number: usize, record: &FileRecord) -> Error {
        let what = match record.fingerprint.plan == self.fingerprint.plan {
            true if self.digesting.is_some() => "this part was made from other bytes than those of the input",
            true => "this part was made from another version of the input, or from a copy with another date",
            false => "this part was made from another input, or with other options",
        };
        let error = Error::new(ErrorKind::InvalidArgument, what).in_file(&self.record_place(number));
        error.advise("Run all parts and the merge with the same files and options.")
    }

    fn record_name(&self, number: usize) -> String {
        record_name(&self.destination.entry, number, self.plan.shards.len())
    }

    fn record_place(&self, number: usize) -> String {
        let name = self.record_name(number);
        self.destination.url_of(&name).unwrap_or(name)
    }
}
