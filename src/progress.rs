//! How long work tells how far it is, and learns that it should stop.

/// Who watches long work: `()` where nobody does. Called from several threads.
pub trait Progress: Sync {
    /// The work is over so many bytes in all.
    fn expects(&self, total_bytes: u64) {
        let _ = total_bytes;
    }

    /// So many more bytes are done.
    fn advanced(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Asked between pieces of work. Once this says yes, the work cleans up and ends in an error.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Progress for () {}
