//! Requests ranges of a file, which may be compressed or signed as a whole.

use super::ModelFile;
use crate::deferred::Code;
use crate::error::{Error, ErrorKind, Result};
use crate::format::MediaType;
use crate::loader::transfer::remote::{Proof, Remote};
use crate::loader::transfer::seen_blocks::SeenBody;
use crate::loader::transfer::signed::{SignedContent, StoredBody};
use crate::loader::transfer::truncated::{too_limited, truncated_error};
use crate::loader::transfer::unpack::{FileBody, NextBody, Unpacked};
use crate::source::{Body, RangeResponse, Source};
use futures::FutureExt;
use std::ops::Range;
use std::rc::Rc;

/// A response with bytes of the stored file.
struct StoredResponse<B: Body> {
    body: StoredBody<B>,
    start: u64,
    /// The end up to which the body can be read.
    end: Option<u64>,
    is_whole_file: bool,
    file_length: Option<u64>,
    proof: Proof,
}

impl<S: Source> ModelFile<S> {
    /// Requests `range` from the source and checks the response. The body starts at the start of `range` or before it.
    pub(crate) async fn request(self: &Rc<Self>, range: Range<u64>) -> Result<Remote<S::Body>> {
        if let Some(parked) = self.take_parked(&range) {
            return Ok(parked);
        }
        if let Some(joined) = &self.joined {
            let (remote, length) = Rc::clone(joined).request(range).await?;
            self.set_length(length);
            return Ok(remote);
        }
        let packed = self.packed.borrow().clone();
        let stored = packed.as_ref().map_or(range.clone(), |component| component.range.clone());
        let StoredResponse { body, start, end, is_whole_file, file_length, proof } =
            self.request_stored(stored).await?;
        self.comes_from_start.set(is_whole_file || packed.is_some());
        if let Some(component) = packed {
            let decoded_length = component.decoded_length;
            let unpacked = Unpacked::new(body, start..end.unwrap_or(u64::MAX), component, Rc::clone(&self.stats))?;
            let body = FileBody::Unpacked(Box::new(unpacked.continued_by(self.rest_of_packed())));
            return Ok(Remote { body, position: 0, end: decoded_length, is_from_start: true, proof });
        }
        if let Some(length) = file_length {
            self.window.borrow_mut().set_file_length(length);
        }
        Ok(Remote { body: FileBody::Stored(body), position: start, end, is_from_start: is_whole_file, proof })
    }

    /// Requests `range` of the stored file, but nothing beyond its end: some servers refuse that.
    async fn request_stored(&self, range: Range<u64>) -> Result<StoredResponse<S::Body>> {
        self.stats.count_request();
        let length = self.file_length().filter(|length| range.start < *length).unwrap_or(u64::MAX);
        let range = range.start..range.end.min(length);
        // `None` only for the reader that compares the file with its signature: others wait for it.
        let blocks = self.signed.as_ref().and_then(SignedContent::blocks);
        let range = blocks.as_ref().map_or(range.clone(), |blocks| blocks.around(&range));
        let (answer, proof, seen) = self.request_one_version(range).await?;
        if seen.is_some() || blocks.is_some() {
            self.source.host().load_code(Code::Blake3).await?; // with which blocks are compared
        }
        let RangeResponse { start, end, file_length, is_whole_file, is_page, body, .. } = answer;
        self.media_type.set(if is_page { MediaType::Page } else { MediaType::Other });
        let known_length = file_length.or(self.length());
        let comparable_end = |end| match (&seen, &blocks) {
            (Some(seen), _) => seen.readable_end(end, known_length),
            (None, Some(blocks)) => blocks.readable_end(end),
            (None, None) => end,
        };
        let end = end.map(comparable_end);
        let body = match seen {
            Some(seen) => StoredBody::Seen(Box::new(SeenBody::new(body, start, seen, known_length))),
            None => StoredBody::new(body, start, blocks)?,
        };
        Ok(StoredResponse { body, start, end, is_whole_file, file_length, proof })
    }

    /// Requests the rest of a file that is compressed as a whole, from the end of a response that was limited.
    fn rest_of_packed(self: &Rc<Self>) -> NextBody<StoredBody<S::Body>> {
        let file = Rc::downgrade(self); // the file keeps the body
        Box::new(move |range: Range<u64>| {
            let file = file.upgrade();
            let request = async move {
                let Some(file) = file else { return Err(Error::new(ErrorKind::Closed, "the model is closed")) };
                let StoredResponse { body, start, end, proof, .. } = file.request_stored(range.clone()).await?;
                let is_same_version = proof == Proof::Strong || file.signed.is_some();
                match start == range.start {
                    true if is_same_version => Ok((body, end.unwrap_or(u64::MAX))),
                    true => Err(too_limited(start, range.start)),
                    false => Err(truncated_error(0, range.start, range.end)),
                }
            };
            request.boxed_local()
        })
    }
}
