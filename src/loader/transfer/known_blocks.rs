//! Where the blocks of compressed components are: learned while they are decoded, stated by the file, or read from a
//! seek table.

use crate::error::{Result, malformed};
use crate::index::{BlockEnd, BlockSpan, Blocks, Component};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

/// The known blocks of a file's components, by the offset of the component.
#[derive(Debug, Default)]
pub(crate) struct KnownBlocks(RefCell<HashMap<u64, Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Blocks that were decoded.
    decoded: Blocks,
    /// What the file states, once it was looked for: in its index, or in a seek table.
    table: Option<Option<Blocks>>,
    /// Whether blocks differed from those that the file states.
    is_stated_wrong: bool,
}

impl KnownBlocks {
    /// The blocks that hold `wanted` decoded bytes of a component, if their positions are known.
    pub(super) fn block_span(&self, component: &Component, wanted: &Range<u64>) -> Option<BlockSpan> {
        let mut known = self.0.borrow_mut();
        let known = known.entry(component.range.start).or_default();
        match known.stated().filter(|_| known.decoded.last().decoded < wanted.end) {
            Some(stated) => stated.span(component, wanted),
            None => known.decoded.span(component, wanted),
        }
    }

    /// Adds blocks that were decoded: their ends relative to `skipped`, where the reading of the component began. It is
    /// `None` for a component that was read as a whole.
    ///
    /// # Errors
    /// `FORMAT` if the component was read from a block that the file states, and the statement is wrong.
    pub(crate) fn learn(&self, component: &Component, skipped: Option<BlockEnd>, decoded: &[BlockEnd]) -> Result<()> {
        let start = skipped.unwrap_or_default();
        let mut known = self.0.borrow_mut();
        if decoded.len() < 2 && !known.contains_key(&(component.range.start - start.stored)) {
            return Ok(()); // nothing to save, and a model may have 100,000 small tensors
        }
        let known = known.entry(component.range.start - start.stored).or_default();
        if known.stated().is_some_and(|stated| !stated.matches(start, decoded)) {
            known.is_stated_wrong = true;
            if skipped.is_some() {
                return Err(malformed("its compressed blocks are not where the file says that they are"));
            }
        }
        known.decoded.learn(start, decoded);
        Ok(())
    }

    /// Whether the seek table of a component has not been looked for, and the `wanted` bytes are not in known blocks.
    #[cfg(feature = "zstd")]
    pub(super) fn lack_table(&self, component: &Component, wanted: &Range<u64>) -> bool {
        let known = self.0.borrow();
        let is_open = |known: &Known| known.table.is_none() && known.decoded.last().decoded < wanted.end;
        known.get(&component.range.start).is_none_or(is_open)
    }

    /// Adds what the file states about the component at `start`; `None` if it states nothing.
    pub(crate) fn set_table(&self, start: u64, table: Option<Blocks>) {
        self.0.borrow_mut().entry(start).or_default().table = Some(table);
    }

    /// Ignores from now on what the file states about the blocks of the component that starts at this offset.
    pub(crate) fn distrust(&self, start: u64) {
        self.0.borrow_mut().entry(start).or_default().is_stated_wrong = true;
    }
}

impl Known {
    fn stated(&self) -> Option<&Blocks> {
        self.table.as_ref().and_then(Option::as_ref).filter(|_| !self.is_stated_wrong)
    }
}
