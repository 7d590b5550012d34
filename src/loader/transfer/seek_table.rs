//! Cuts compressed components between blocks, so that rows are read without the blocks before them. Reads the seek
//! tables of Zstandard.

#[cfg(feature = "zstd")]
use crate::codec::zstd_seek;
use crate::error::Result;
use crate::index::{BlockSpan, Component};
#[cfg(feature = "zstd")]
use crate::index::{Blocks, Encoding};
use crate::loader::transfer::file::ModelFile;
use crate::source::Source;
#[cfg(feature = "zstd")]
use crate::window::{Stop, Window};
#[cfg(feature = "zstd")]
use futures::FutureExt;
use std::ops::Range;
use std::rc::Rc;

/// The maximum length of a seek table that is read. A table of frames of 1 MiB is shorter for any tensor below 128 GiB.
#[cfg(feature = "zstd")]
const MAX_TABLE_BYTES: u64 = 1 << 20;

impl<S: Source> ModelFile<S> {
    /// The blocks that hold `wanted` decoded bytes of a component. Reads its seek table, if there may be one. `None` if
    /// the whole component is needed, or if the positions of its blocks are not known.
    ///
    /// # Errors
    /// Errors of the source.
    pub(crate) async fn block_span(
        self: &Rc<Self>,
        component: &Component,
        wanted: &Range<u64>,
    ) -> Result<Option<BlockSpan>> {
        // A component with streams begins where one of them does, and has no blocks of its own.
        if component.encoding.keeps_positions() || wanted.is_empty() || component.streams().is_some() {
            return Ok(None);
        }
        #[cfg(feature = "zstd")]
        if self.may_have_table(component) && self.blocks.lack_table(component, wanted) {
            let table = read_table(self, component).boxed_local().await?; // boxed, because it is deferred
            self.blocks.set_table(component.range.start, table);
        }
        Ok(self.blocks.block_span(component, wanted))
    }

    /// Whether a component may have a seek table that is worth a request.
    #[cfg(feature = "zstd")]
    fn may_have_table(&self, component: &Component) -> bool {
        component.encoding == Encoding::Zstd
            && !self.comes_from_start() // all bytes before the table would be read, too
            && component.decoded_length.is_some_and(|length| length > 2 * zstd_seek::FRAME_BYTES)
    }
}

/// Reads the seek table at the end of a component; `None` if it has none, or a wrong one.
#[cfg(feature = "zstd")]
async fn read_table<S: Source>(file: &Rc<ModelFile<S>>, component: &Component) -> Result<Option<Blocks>> {
    let frames = component.decoded_length.unwrap_or(0).div_ceil(zstd_seek::FRAME_BYTES);
    let mut length = zstd_seek::table_bytes(frames); // as weightstream writes it
    loop {
        let start = component.range.end.saturating_sub(length).max(component.range.start);
        let read = |window: &Window| -> Result<_, Stop> { Ok(window.get(start..component.range.end)?.to_vec()) };
        let bytes = file.parse_with(read).await?;
        let footer = bytes.len().saturating_sub(zstd_seek::FOOTER_BYTES as usize);
        match zstd_seek::table_length(bytes.get(footer..).unwrap_or_default()) {
            Some(needed) if needed <= bytes.len() as u64 => {
                let table = bytes.get(bytes.len() - needed as usize..).unwrap_or_default();
                let frames = zstd_seek::parse(table);
                return Ok(frames.and_then(|frames| Blocks::all(component, frames.into_iter())).ok());
            }
            Some(needed) if needed <= MAX_TABLE_BYTES && length < needed => length = needed,
            _ => return Ok(None),
        }
    }
}
