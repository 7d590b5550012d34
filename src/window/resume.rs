//! Parsers that go on where they stopped.

use super::{Stop, Window};
use std::any::Any;

impl Window<'_> {
    /// Runs a parser that stops many times, each time with more bytes known. What it has read (`S`) is kept while bytes
    /// are missing, and passed to it again. A parser that begins from the start each time takes quadratic time.
    ///
    /// `read` must leave the state as it was before the item whose bytes are missing.
    ///
    /// # Errors
    /// Those of `start` and `read`.
    pub(crate) fn resume<S: Any>(
        &self,
        start: impl FnOnce() -> Result<S, Stop>,
        read: impl FnOnce(&mut S) -> Result<(), Stop>,
    ) -> Result<S, Stop> {
        let kept = self.stopped.take().and_then(|state| state.downcast::<S>().ok());
        let mut state = kept.map_or_else(|| start().map(Box::new), Ok)?;
        match read(&mut state) {
            Ok(()) => Ok(*state),
            Err(stop) => {
                if matches!(stop, Stop::Need(_)) {
                    *self.stopped.borrow_mut() = Some(state);
                }
                Err(stop)
            }
        }
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use crate::error::malformed;

    #[test]
    fn a_parser_goes_on_where_it_stopped() {
        let window = Window::new(None);
        let run = |stop: Option<Stop>| {
            let read = |read: &mut u32| {
                *read += 1;
                stop.map_or(Ok(()), Err)
            };
            window.resume(|| Ok(0), read)
        };
        assert_eq!(run(Some(Stop::Need(0..1))), Err(Stop::Need(0..1)));
        assert_eq!(run(Some(Stop::Need(1..2))), Err(Stop::Need(1..2)));
        assert_eq!(run(None), Ok(3));
        assert_eq!(run(Some(Stop::Need(0..1))), Err(Stop::Need(0..1)));
        let failed = Stop::Failed(malformed("x"));
        assert_eq!(run(Some(failed.clone())), Err(failed), "and drops what it read");
        assert_eq!(run(None), Ok(1));
    }

    #[test]
    fn another_parser_begins_from_the_start() {
        let window = Window::new(None);
        assert!(window.resume(|| Ok(7u32), |_| Err(Stop::Need(0..1))).is_err());
        assert_eq!(window.resume(|| Ok(0u64), |_| Ok(())), Ok(0));
    }
}
