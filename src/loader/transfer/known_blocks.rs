//! Where the blocks of compressed components are: learned while they are decoded, stated by the file, or read from a
//! seek table. Rows are read without the blocks before them.

#[cfg(feature = "zstd")]
use crate::codec::zstd_seek;
use crate::error::{Result, malformed};
use crate::index::{BlockEnd, Blocks, Component, Cut, Encoding};
use crate::loader::transfer::file::ModelFile;
use crate::source::Source;
#[cfg(feature = "zstd")]
use crate::window::Stop;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// The maximum length of a seek table that is read. A table of frames of 1 MiB is shorter for any tensor below 128 GiB.
#[cfg(feature = "zstd")]
const MAX_TABLE_BYTES: u64 = 1 << 20;

/// The known blocks of a file's components, by the offset of the component.
#[derive(Debug, Default)]
pub(crate) struct KnownBlocks(RefCell<HashMap<u64, Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Blocks that were decoded.
    decoded: Blocks,
    /// The seek table, once it was looked for.
    table: Option<Option<Blocks>>,
    /// Whether blocks differed from those that the file states.
    is_stated_wrong: bool,
}

impl KnownBlocks {
    /// The blocks that hold `wanted` decoded bytes of a component, if their positions are known.
    fn cut(&self, component: &Component, wanted: &Range<u64>) -> Option<Cut> {
        let mut known = self.0.borrow_mut();
        let known = known.entry(component.range.start).or_default();
        match known.stated(component).filter(|_| known.decoded.last().decoded < wanted.end) {
            Some(stated) => stated.cut(component, wanted),
            None => known.decoded.cut(component, wanted),
        }
    }

    /// Adds blocks that were decoded: their ends relative to `skipped`, where the reading of the component began. It is
    /// `None` for a component that was read as a whole.
    ///
    /// # Errors
    /// `FORMAT` if the component was cut where the file states blocks, and the statement is wrong.
    pub(crate) fn learn(&self, component: &Component, skipped: Option<BlockEnd>, decoded: &[BlockEnd]) -> Result<()> {
        let start = skipped.unwrap_or_default();
        let mut known = self.0.borrow_mut();
        if decoded.len() < 2 && !known.contains_key(&(component.range.start - start.stored)) {
            return Ok(()); // nothing to save, and a model may have 100,000 small tensors
        }
        let known = known.entry(component.range.start - start.stored).or_default();
        if known.stated(component).is_some_and(|stated| !stated.matches(start, decoded)) {
            known.is_stated_wrong = true;
            if skipped.is_some() {
                return Err(malformed("its compressed blocks are not where the file says that they are"));
            }
        }
        known.decoded.learn(start, decoded);
        Ok(())
    }

    /// Ignores from now on what the file states about the blocks of a component. Returns whether it states anything.
    pub(crate) fn distrust(&self, component: &Component) -> bool {
        let mut known = self.0.borrow_mut();
        let known = known.entry(component.range.start).or_default();
        let was_trusted = known.stated(component).is_some();
        known.is_stated_wrong = true;
        was_trusted
    }
}

impl Known {
    fn stated<'a>(&'a self, component: &'a Component) -> Option<&'a Blocks> {
        let table = self.table.as_ref().and_then(Option::as_ref);
        component.blocks.as_deref().or(table).filter(|_| !self.is_stated_wrong)
    }
}

impl<S: Source> ModelFile<S> {
    /// The blocks that hold `wanted` decoded bytes of a component. Reads the seek table of Zstandard, if there may be
    /// one. `None` if the whole component is needed, or if the positions of its blocks are not known.
    ///
    /// # Errors
    /// Errors of the source.
    pub(crate) async fn cut(self: &Rc<Self>, component: &Component, wanted: &Range<u64>) -> Result<Option<Cut>> {
        if component.encoding.keeps_positions() || wanted.is_empty() {
            return Ok(None);
        }
        #[cfg(feature = "zstd")]
        self.find_table(component, wanted).await?;
        Ok(self.blocks.cut(component, wanted))
    }

    /// Reads the seek table at the end of a component, unless its blocks are known or too few.
    #[cfg(feature = "zstd")]
    async fn find_table(self: &Rc<Self>, component: &Component, wanted: &Range<u64>) -> Result<()> {
        let is_candidate = component.encoding == Encoding::Zstd
            && component.blocks.is_none()
            && !self.comes_from_start() // all bytes before the table would be read, too
            && component.decoded_length.is_some_and(|length| length > 2 * zstd_seek::FRAME_BYTES);
        let is_open = match self.blocks.0.borrow().get(&component.range.start) {
            None => true,
            Some(known) => known.table.is_none() && known.decoded.last().decoded < wanted.end,
        };
        if !is_candidate || !is_open {
            return Ok(());
        }
        let frames = component.decoded_length.unwrap_or(0).div_ceil(zstd_seek::FRAME_BYTES);
        let mut length = zstd_seek::table_bytes(frames);
        let table = loop {
            let start = component.range.end.saturating_sub(length).max(component.range.start);
            let read = |window: &crate::window::Window| -> Result<_, Stop> {
                Ok(window.get(start..component.range.end)?.to_vec())
            };
            let bytes = self.parse_with(read).await?;
            let footer = bytes.len().saturating_sub(zstd_seek::FOOTER_BYTES as usize);
            match zstd_seek::table_length(bytes.get(footer..).unwrap_or_default()) {
                Some(needed) if needed <= bytes.len() as u64 => {
                    let table = bytes.get(bytes.len() - needed as usize..).unwrap_or_default();
                    break zstd_seek::parse(table).and_then(|frames| Blocks::all(component, frames.into_iter())).ok();
                }
                Some(needed) if needed <= MAX_TABLE_BYTES && length < needed => length = needed,
                _ => break None,
            }
        };
        self.blocks.0.borrow_mut().entry(component.range.start).or_default().table = Some(table);
        Ok(())
    }
}
