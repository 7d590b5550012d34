//! A source of bytes in memory.

use super::{Body, Buffer, CacheHints, ModelSource, RangeResponse, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use std::ops::Range;
use std::rc::Rc;

/// A named file in memory, with the other files of its model.
#[derive(Debug, Clone)]
pub struct MemorySource {
    name: String,
    bytes: Rc<[u8]>,
    siblings: Rc<Vec<(String, Rc<[u8]>)>>,
}

impl MemorySource {
    /// Opens the first of `files` (name and content). The others are in the same folder.
    ///
    /// # Errors
    /// `NOT_FOUND` if `files` is empty.
    pub fn new(files: Vec<(String, Rc<[u8]>)>) -> Result<Self> {
        let siblings = Rc::new(files);
        let (name, bytes) =
            siblings.first().cloned().ok_or_else(|| Error::new(ErrorKind::NotFound, "the list of files is empty"))?;
        Ok(MemorySource { name, bytes, siblings })
    }
}

impl CacheHints for MemorySource {}

impl Source for MemorySource {
    type Body = MemoryBody;

    fn name(&self) -> &str {
        &self.name
    }

    async fn read(&self, range: Range<u64>) -> Result<RangeResponse<MemoryBody>> {
        let length = self.bytes.len() as u64;
        if range.start >= length && (length > 0 || range.start > 0) {
            let what = format!("the file has {length} bytes, none of them in the requested range");
            return Err(Error::new(ErrorKind::Truncated, what).at(range));
        }
        let end = range.end.min(length);
        let body = MemoryBody { bytes: Rc::clone(&self.bytes), left: range.start..end };
        let identity = Identity { length: Some(length), ..Identity::default() };
        Ok(RangeResponse {
            end: Some(end),
            file_length: Some(length),
            identity,
            ..RangeResponse::new(range.start, body)
        })
    }

    fn is_immutable(&self) -> bool {
        true
    }
}

impl ModelSource for MemorySource {
    fn file_name(&self) -> Option<String> {
        Some(self.name.clone())
    }

    fn part(&self, path: &str) -> Result<Self> {
        match self.siblings.iter().find(|(name, _)| name == path) {
            Some((name, bytes)) => {
                Ok(MemorySource { name: name.clone(), bytes: Rc::clone(bytes), siblings: Rc::clone(&self.siblings) })
            }
            None => Err(Error::new(ErrorKind::NotFound, format!("the model's file \"{path}\" is not in memory"))),
        }
    }

    fn part_at_url(&self, url: &str, path: &str) -> Result<Self> {
        self.part(url).or_else(|_| self.part(path))
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
