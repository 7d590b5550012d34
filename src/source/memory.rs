//! Bytes that are in memory already, and the buffer that native tensors live in.

use super::{Answer, Body, Buffer, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use std::ops::Range;
use std::rc::Rc;

/// A file in memory, under a name, perhaps with others beside it.
#[derive(Debug, Clone)]
pub struct MemorySource {
    name: String,
    bytes: Rc<[u8]>,
    beside: Rc<Vec<(String, Rc<[u8]>)>>,
}

impl MemorySource {
    /// The first of `files` (name and content); the others lie beside it.
    ///
    /// # Errors
    /// `NOT_FOUND` where there is no first.
    pub fn new(files: Vec<(String, Rc<[u8]>)>) -> Result<Self> {
        let beside = Rc::new(files);
        let (name, bytes) =
            beside.first().cloned().ok_or_else(|| Error::new(ErrorKind::NotFound, "no file was given"))?;
        Ok(MemorySource { name, bytes, beside })
    }
}

impl Source for MemorySource {
    type Body = MemoryBody;

    fn name(&self) -> &str {
        &self.name
    }

    fn file_name(&self) -> Option<String> {
        Some(self.name.clone())
    }

    async fn read(&self, range: Range<u64>) -> Result<Answer<MemoryBody>> {
        let length = self.bytes.len() as u64;
        if range.start >= length && length > 0 {
            let what = format!("the file has {length} bytes, none of them in the range asked for");
            return Err(Error::new(ErrorKind::Truncated, what).at(range));
        }
        let end = range.end.min(length);
        let body = MemoryBody { bytes: Rc::clone(&self.bytes), left: range.start..end };
        let identity = Identity { length: Some(length), ..Identity::default() };
        Ok(Answer {
            start: range.start,
            end: Some(end),
            file_length: Some(length),
            is_whole_file: false,
            identity,
            body,
        })
    }

    fn is_immutable(&self) -> bool {
        true
    }

    fn part(&self, path: &str) -> Result<Self> {
        match self.beside.iter().find(|(name, _)| name == path) {
            Some((name, bytes)) => {
                Ok(MemorySource { name: name.clone(), bytes: Rc::clone(bytes), beside: Rc::clone(&self.beside) })
            }
            None => Err(Error::new(ErrorKind::NotFound, format!("there is no file \"{path}\" beside it"))),
        }
    }

    fn elsewhere(&self, url: &str, path: &str) -> Result<Self> {
        self.part(url).or_else(|_| self.part(path))
    }

    async fn pause(&self, _: u64) {}

    /// To copy takes no time that another connection could shorten.
    fn now_ms(&self) -> u64 {
        0
    }

    fn random(&self) -> f64 {
        0.5
    }
}

/// A range of a [`MemorySource`].
#[derive(Debug)]
pub struct MemoryBody {
    bytes: Rc<[u8]>,
    left: Range<u64>,
}

impl Body for MemoryBody {
    type Buffer = Vec<u8>;

    async fn read(&mut self, into: &mut Vec<u8>, at: Range<u64>) -> Result<u64> {
        let length = (self.left.end - self.left.start).min(at.end - at.start);
        let taken = self.left.start as usize..(self.left.start + length) as usize;
        into.write(at.start, self.bytes.get(taken).unwrap_or_default())?;
        self.left.start += length;
        Ok(length)
    }
}

impl Buffer for Vec<u8> {
    fn allocate(byte_length: u64) -> Result<Self> {
        let mut buffer = Vec::new();
        Buffer::resize(&mut buffer, byte_length)?;
        Ok(buffer)
    }

    fn byte_length(&self) -> u64 {
        self.len() as u64
    }

    fn resize(&mut self, byte_length: u64) -> Result<()> {
        let no_memory = || Error::new(ErrorKind::Limit, format!("there is no memory for {byte_length} bytes"));
        let length = usize::try_from(byte_length).map_err(|_| no_memory())?;
        self.try_reserve_exact(length.saturating_sub(self.len())).map_err(|_| no_memory())?;
        Vec::resize(self, length, 0);
        self.shrink_to_fit();
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let slot = usize::try_from(at).ok().and_then(|at| self.get_mut(at..)?.get_mut(..bytes.len()));
        slot.ok_or_else(outside)?.copy_from_slice(bytes);
        Ok(())
    }

    fn copy(&mut self, at: u64, from: &Self, range: Range<u64>) -> Result<()> {
        self.write(at, from.get(range.start as usize..range.end as usize).ok_or_else(outside)?)
    }

    fn inspect(&self, range: Range<u64>, look: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        look(self.get(range.start as usize..range.end as usize).ok_or_else(outside)?)
    }
}

fn outside() -> Error {
    Error::new(ErrorKind::Internal, "bytes were to be put outside a buffer")
}
