//! A file mapped into memory: the one place of the library with `unsafe`.
#![allow(unsafe_code, reason = "a map cannot be made without; the arguments stand with each use")]

use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::ops::Range;

/// A read-only map of a whole file.
#[derive(Debug)]
pub(super) struct Map(Mmap);

impl Map {
    /// Maps a regular file that is open for reading.
    ///
    /// # Safety
    /// While the map lives, no process may write into the file or cut it short.
    pub(super) unsafe fn of(file: &File) -> io::Result<Map> {
        // SAFETY: the map is read-only, so that nothing in this process writes to it, and our caller promised that
        // nothing else changes the file. Offsets, lengths and names are copied out of the map before they are checked
        // and used.
        let map = unsafe { Mmap::map(file)? };
        // By default the kernel reads up to 128 KiB round every page that is touched. Here it is told what
        // will be touched (`will_need`) and must not guess.
        #[cfg(unix)]
        map.advise(memmap2::Advice::Random).ok();
        Ok(Map(map))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Has the kernel read these bytes in the background.
    #[cfg(unix)]
    pub(super) fn will_need(&self, range: &Range<u64>) {
        // Linux reads no more ahead for one call than the device's largest request, often 1.25 MiB.
        const STEP: usize = 512 << 10;
        let Range { start, end } = self.inside(range);
        for at in (start..end).step_by(STEP) {
            self.0.advise_range(memmap2::Advice::WillNeed, at, STEP.min(end - at)).ok();
        }
    }

    /// Gives the memory of these bytes back; they are read from the file again if they are touched again.
    #[cfg(unix)]
    pub(super) fn release(&self, range: &Range<u64>) {
        let Range { start, end } = self.inside(range);
        // SAFETY: `DontNeed` throws away writes to private maps and empties anonymous ones. This map is of
        // a file and read-only: the pages come back with the file's bytes, and slices into them stay valid.
        // The range is inside the map (the end was clamped above), so that no other memory is concerned.
        unsafe { self.0.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start) }.ok();
    }

    #[cfg(not(unix))]
    pub(super) fn will_need(&self, _: &Range<u64>) {}

    #[cfg(not(unix))]
    pub(super) fn release(&self, _: &Range<u64>) {}

    #[cfg(unix)]
    fn inside(&self, range: &Range<u64>) -> Range<usize> {
        let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(self.0.len());
        let start = clamp(range.start);
        start..clamp(range.end).max(start)
    }
}
