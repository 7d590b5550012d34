//! A file mapped into memory: the only module of the library with `unsafe` operations.
#![allow(unsafe_code, reason = "memory maps require unsafe; each use has a SAFETY comment")]

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
    /// While the map exists, no process may write to the file or truncate it.
    pub(super) unsafe fn of(file: &File) -> io::Result<Map> {
        // SAFETY: the map is read-only, so nothing in this process writes to it, and the caller guarantees that nothing
        // else changes the file. Offsets, lengths and names are copied out of the map before they are checked and used.
        let map = unsafe { Mmap::map(file)? };
        // By default the kernel reads up to 128 KiB around every page that is accessed. `will_need` announces accesses
        // instead.
        #[cfg(unix)]
        map.advise(memmap2::Advice::Random).ok();
        Ok(Map(map))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Advises the kernel to read these bytes in the background.
    #[cfg(unix)]
    pub(super) fn will_need(&self, range: &Range<u64>) {
        // For one call, Linux reads ahead at most the device's maximum request size, often 1.25 MiB.
        const STEP: usize = 512 << 10;
        let Range { start, end } = self.inside(range);
        for at in (start..end).step_by(STEP) {
            self.0.advise_range(memmap2::Advice::WillNeed, at, STEP.min(end - at)).ok();
        }
    }

    /// Releases the memory of these bytes. Further accesses read them from the file again.
    #[cfg(unix)]
    pub(super) fn release(&self, range: &Range<u64>) {
        let Range { start, end } = self.inside(range);
        // SAFETY: `DontNeed` discards writes to private maps and clears anonymous ones. This map is of a file and
        // read-only: the pages are reloaded with the file's bytes, and slices into them stay valid. The range is inside
        // the map (the end is clamped above), so no other memory is affected.
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
