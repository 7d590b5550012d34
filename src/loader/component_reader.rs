//! Reads the decoded bytes of one component in pieces, from any position, and verifies them.

use crate::algorithm::Algorithm;
use crate::codec::ComponentDecoder;
use crate::codec::pages::PageChecker;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{BlockEnd, Component, ComponentDigest, DigestedBytes, Encoding, Tensor};
use crate::loader::Loader;
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::range_reader::RangeReader;
use crate::loader::transfer::truncated::truncated_error;
use crate::source::{Buffer, BufferOf, ModelSource};
use std::ops::Range;
use std::rc::Rc;

/// The number of compressed bytes that are decoded at once. Bounds the decoded bytes that are held until the caller
/// takes them.
const STEP_BYTES: u64 = 16 << 10;

/// A multiple of the width of all numbers. A part of a big-endian component is read from and to such an offset.
const MAX_NUMBER_BYTES: u64 = 16;

/// Reads a range of the decoded bytes of one component.
///
/// The digests of a component that is read from its first to its last byte are compared before its last bytes are
/// passed on.
pub(crate) struct ComponentReader<S: ModelSource> {
    file: Rc<ModelFile<S>>,
    tensor_name: String,
    /// The component, or the blocks of it that are read.
    component: Component,
    /// Where these blocks begin in the whole component.
    cut_at: Option<BlockEnd>,
    /// The range of the file that is decoded.
    own: Range<u64>,
    digests: Vec<ComponentDigest>,
    reading: RangeReader<S>,
    /// The end of the stored bytes that are read.
    stored_end: u64,
    /// Stored bytes that have arrived and are not decoded yet: their range in the buffer.
    arrived: Option<(BufferOf<S>, Range<u64>)>,
    /// `None` once the end was reached and the digests were compared.
    decoder: Option<ComponentDecoder>,
    pages: Option<PageChecker>,
    /// The decoded bytes to pass on. The end is `u64::MAX` if the decoded length is unknown.
    wanted: Range<u64>,
    /// Whether all bytes are read, so that the encoding must be complete.
    is_complete: bool,
    /// The offset of the next decoded byte.
    decoded_end: u64,
    /// Decoded bytes that the caller has not taken yet, and how many of them it has taken.
    untaken: (Vec<u8>, usize),
    verified: Option<Algorithm>,
}

/// The component to read, and which of its decoded bytes.
pub(crate) struct WantedComponent<'a> {
    pub(crate) tensor: &'a Tensor,
    pub(crate) component: &'a Component,
    /// `None` for all bytes.
    pub(crate) range: Option<Range<u64>>,
}

impl WantedComponent<'_> {
    fn is_complete(&self) -> bool {
        let whole = || self.component.decoded_length.map(|length| 0..length);
        self.range.is_none() || self.range == whole()
    }
}

/// What a [`ComponentReader`] reads, before it has a reader of the stored bytes.
pub(crate) struct PreparedComponent<S: ModelSource> {
    file: Rc<ModelFile<S>>,
    tensor_name: String,
    component: Component,
    cut_at: Option<BlockEnd>,
    digests: Vec<ComponentDigest>,
    pages: Option<PageChecker>,
    wanted: Range<u64>,
    is_complete: bool,
    /// The decoded bytes that are decoded for the wanted ones.
    decoded: Range<u64>,
    /// The range of the file that is decoded.
    own: Range<u64>,
    /// The range of the file that is read: with pages, to their ends.
    stored: Range<u64>,
}

impl<S: ModelSource> PreparedComponent<S> {
    /// Determines which bytes are read. Reads the page digests, if the format has any.
    pub(crate) async fn new(loader: &Loader<S>, file: &Rc<ModelFile<S>>, of: WantedComponent<'_>) -> Result<Self> {
        let is_complete = of.is_complete();
        let WantedComponent { tensor, component, range } = of;
        let wanted = range.unwrap_or(0..component.decoded_length.unwrap_or(u64::MAX));
        let cut = if is_complete { None } else { file.block_span(component, &wanted).await? };
        let cut_at = cut.as_ref().map(|cut| cut.start);
        let component = cut.as_ref().map_or(component, |cut| &cut.component);
        let decoded = match cut_at {
            _ if is_complete => wanted.clone(),
            Some(start) => start.decoded..wanted.end,
            None => decoded_range(component, &wanted),
        };
        let own = match component.encoding.keeps_positions() && !is_complete {
            true => component.range.start + decoded.start..component.range.start + decoded.end,
            false => component.range.clone(),
        };
        let (mut pages, mut stored) = (None, own.clone());
        if let Some(table) = component.checking_pages(is_complete).filter(|_| loader.options.verify) {
            file.read_pages(table).await.map_err(|e| file.reject_if_corrupt(e.in_tensor(&tensor.name)))?;
            pages = file.known_pages(table).map(PageChecker::new);
            stored = pages.as_ref().map_or(stored.clone(), |pages| pages.pages().around(&stored));
        }
        Ok(PreparedComponent {
            file: Rc::clone(file),
            tensor_name: tensor.name.clone(),
            component: component.clone(),
            digests: if is_complete { digests_of(loader, tensor, component) } else { Vec::new() },
            cut_at,
            pages,
            wanted,
            is_complete,
            decoded,
            own,
            stored,
        })
    }

    /// The range of the file that is read.
    pub(crate) fn stored(&self) -> Range<u64> {
        self.stored.clone()
    }

    /// Starts to read. `reading` is at the start of [`PreparedComponent::stored`].
    pub(crate) fn start(self, reading: RangeReader<S>) -> ComponentReader<S> {
        ComponentReader {
            decoder: Some(ComponentDecoder::new(&self.component, self.digests.iter().copied())),
            reading,
            stored_end: self.stored.end,
            arrived: None,
            decoded_end: self.decoded.start,
            untaken: (Vec::new(), 0),
            verified: None,
            file: self.file,
            tensor_name: self.tensor_name,
            component: self.component,
            cut_at: self.cut_at,
            own: self.own,
            digests: self.digests,
            pages: self.pages,
            wanted: self.wanted,
            is_complete: self.is_complete,
        }
    }
}

impl<S: ModelSource> ComponentReader<S> {
    /// The offset in the decoded component of the next byte.
    pub(crate) fn position(&self) -> u64 {
        let (bytes, taken) = &self.untaken;
        self.decoded_end.clamp(self.wanted.start, self.wanted.end) - (bytes.len() - taken) as u64
    }

    /// The algorithm that the bytes were verified with, once the last byte was read.
    pub(crate) fn verified(&self) -> Option<Algorithm> {
        self.verified
    }

    /// Whether a later read can continue here, in a compressed component.
    pub(crate) fn can_continue(&self) -> bool {
        self.decoder.is_some() && !self.component.encoding.keeps_positions()
    }

    /// The reader of the stored bytes, for the component that follows.
    pub(crate) fn into_reading(self) -> RangeReader<S> {
        self.reading
    }

    /// Fills `at` of `into` with the next bytes, and returns how many there are: fewer than fit only at the end.
    ///
    /// # Errors
    /// Errors of the source and the decoders; `CHECKSUM` if the last bytes complete a component that does not match its
    /// digest.
    pub(crate) async fn fill(&mut self, into: &mut BufferOf<S>, at: Range<u64>) -> Result<u64> {
        let filled = self.fill_unplaced(into, at).await;
        filled.map_err(|e| self.file.reject_if_corrupt(e.in_tensor(&self.tensor_name)))
    }

    async fn fill_unplaced(&mut self, into: &mut BufferOf<S>, at: Range<u64>) -> Result<u64> {
        let count = (at.end - at.start).min(self.wanted.end - self.position());
        let at = at.start..at.start + count;
        let mut filled = at.start;
        if self.component.encoding == Encoding::Raw && self.pages.is_none() && self.arrived.is_none() {
            self.reading.fill(into, at.clone(), &mut |_| ()).await?;
            self.digest(into, at.clone())?;
            self.decoded_end += count;
            filled = at.end;
        }
        while filled < at.end {
            filled += self.take(into, filled..at.end)?;
            if filled < at.end {
                let mut untaken = std::mem::take(&mut self.untaken.0);
                self.untaken.1 = 0;
                untaken.clear();
                let mut hold = |bytes: &[u8]| {
                    untaken.extend_from_slice(bytes);
                    Ok(())
                };
                let has_more = self.advance(&mut hold).await?;
                self.untaken.0 = untaken;
                if !has_more && self.untaken.0.is_empty() {
                    break;
                }
            }
        }
        if self.position() == self.wanted.end {
            while self.advance(&mut |_| Ok(())).await? {}
        }
        Ok(filled - at.start)
    }

    /// Digests bytes that were read directly into the caller's buffer.
    fn digest(&mut self, buffer: &BufferOf<S>, range: Range<u64>) -> Result<()> {
        let Some(decoder) = self.decoder.as_mut().filter(|decoder| decoder.has_checks()) else { return Ok(()) };
        buffer.inspect(range, &mut |bytes| {
            decoder.check_raw(bytes);
            Ok(())
        })
    }

    /// Moves decoded bytes to the caller's buffer. Returns their number.
    fn take(&mut self, into: &mut BufferOf<S>, at: Range<u64>) -> Result<u64> {
        let (bytes, taken) = &mut self.untaken;
        let rest = bytes.get(*taken..).unwrap_or_default();
        let rest = rest.get(..usize::try_from(at.end - at.start).unwrap_or(usize::MAX)).unwrap_or(rest);
        into.write(at.start, rest)?;
        *taken += rest.len();
        Ok(rest.len() as u64)
    }

    /// Passes all remaining bytes to `emit`. Returns the algorithm that they were verified with.
    ///
    /// # Errors
    /// As for [`ComponentReader::fill`], and errors of `emit`, which may have received bytes before an error is found.
    pub(crate) async fn emit_all(&mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Option<Algorithm>> {
        loop {
            match self.advance(emit).await {
                Ok(true) => {}
                Ok(false) => return Ok(self.verified),
                Err(error) => return Err(self.file.reject_if_corrupt(error.in_tensor(&self.tensor_name))),
            }
        }
    }

    /// Decodes the next stored bytes, and passes those that are wanted to `emit`. Returns false at the end, once the
    /// digests were compared.
    async fn advance(&mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let is_done = !self.is_complete && self.pages.is_none() && self.decoded_end >= self.wanted.end;
        if self.decoder.is_none() {
            return Ok(false);
        }
        if is_done || (self.arrived.is_none() && self.reading.position >= self.stored_end) {
            self.finish()?;
            return Ok(false);
        }
        let (buffer, range) = match self.arrived.take() {
            Some(arrived) => arrived,
            None => self.next_chunk().await?,
        };
        let is_compressed = !self.component.encoding.keeps_positions();
        let step_end = if is_compressed { range.end.min(range.start + STEP_BYTES) } else { range.end };
        self.decode(&buffer, range.start..step_end, self.reading.position - (range.end - range.start), emit)?;
        if step_end < range.end {
            self.arrived = Some((buffer, step_end..range.end));
        } else {
            self.reading.provide_buffer(|| Some(buffer));
        }
        Ok(true)
    }

    async fn next_chunk(&mut self) -> Result<(BufferOf<S>, Range<u64>)> {
        let start = self.reading.position;
        let missing = || truncated_error(start, start, self.stored_end);
        let length = self.reading.chunk(self.stored_end - start).await?.ok_or_else(missing)?.length;
        Ok((self.reading.take_chunk().ok_or_else(missing)?, 0..length))
    }

    /// Decodes `range` of the buffer, which is at offset `stored_at` of the file.
    fn decode(
        &mut self,
        buffer: &BufferOf<S>,
        range: Range<u64>,
        stored_at: u64,
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let ComponentReader { own, decoder, pages, decoded_end, wanted, .. } = self;
        let Some(decoder) = decoder else { return Ok(()) };
        let mut at = stored_at;
        buffer.inspect(range, &mut |bytes| {
            if let Some(pages) = pages {
                pages.update(at, bytes)?;
            }
            let stored = overlap(at, bytes, own);
            at += bytes.len() as u64;
            decoder.push(stored, &mut |decoded| {
                let start = *decoded_end;
                *decoded_end += decoded.len() as u64;
                emit(overlap(start, decoded, wanted))
            })
        })
    }

    fn finish(&mut self) -> Result<()> {
        let Some(decoder) = self.decoder.take() else { return Ok(()) };
        let blocks = decoder.blocks().to_vec();
        let by_digest = decoder.finish(self.is_complete)?;
        self.file.blocks.learn(&self.component, self.cut_at, &blocks)?;
        let missing = self.wanted.end < u64::MAX && self.decoded_end < self.wanted.end;
        if missing {
            let what = format!("its data decodes to {} bytes, but {} are needed", self.decoded_end, self.wanted.end);
            return Err(Error::new(ErrorKind::Format, what));
        }
        self.verified = by_digest.or(self.pages.as_ref().map(|_| Algorithm::Blake3)).or(self.file.signed_by());
        self.file.confirm_contents(&self.component, &self.digests);
        Ok(())
    }
}

/// The decoded bytes that must be decoded for the `wanted` ones.
fn decoded_range(component: &Component, wanted: &Range<u64>) -> Range<u64> {
    match component.encoding {
        Encoding::Raw => wanted.clone(),
        Encoding::BigEndian => {
            let end = wanted.end.next_multiple_of(MAX_NUMBER_BYTES);
            wanted.start - wanted.start % MAX_NUMBER_BYTES
                ..component.decoded_length.map_or(end, |length| end.min(length))
        }
        #[cfg(any(feature = "lz4", feature = "zstd", feature = "onnx"))]
        _ => 0..wanted.end,
    }
}

/// The digests that are compared when a component is read completely: its own, and the pinned one if it is the tensor's
/// only component.
fn digests_of<S: ModelSource>(loader: &Loader<S>, tensor: &Tensor, component: &Component) -> Vec<ComponentDigest> {
    let own = component.digest.filter(|_| loader.options.verify);
    let pinned = loader.pinned.get(&tensor.name).filter(|_| tensor.components.len() == 1);
    let pinned = pinned.map(|digest| ComponentDigest { digest: *digest, over: DigestedBytes::Decoded });
    own.into_iter().chain(pinned).collect()
}

/// The part of `bytes` that is in `range`; `bytes` start at offset `at`.
fn overlap<'a>(at: u64, bytes: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let end = at + bytes.len() as u64;
    let (first, last) = (range.start.clamp(at, end), range.end.clamp(at, end));
    bytes.get((first - at) as usize..(last - at) as usize).unwrap_or_default()
}
