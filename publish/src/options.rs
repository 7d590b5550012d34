//! The options of publishing.

use std::ops::Range;
use weightstream::internals::output::Existing;
use weightstream::internals::write::{ConvertOptions, TensorOrder};
use weightstream::{Error, ErrorKind, Result};

/// How to publish a model.
#[derive(Clone)]
#[non_exhaustive]
pub struct PublishOptions {
    /// How to convert it. By default, to APR, in the order in which a model computes, in files of at most 24 MiB: below
    /// the limit of static hosts (25 MiB), and large enough to amortise a request. A model that would have more than
    /// 1024 files gets larger ones.
    pub convert: ConvertOptions,
    /// Which of the files to publish.
    pub share: Share,
    /// The entry of the previous revision: a path or a URL. Its division into files is kept if tensors are added or
    /// removed, so that the files of unchanged tensors are used again. The entry lists what changed files have in
    /// common with the previous ones, if it is in the same folder.
    pub previous: Option<String>,
    /// Headers (name and value) of requests to an http(s) destination. They are sent only to its origin.
    pub headers: Vec<(String, String)>,
    /// Whether files at the destination that no earlier revision has written are replaced. Otherwise they are errors.
    pub replace_foreign: bool,
}

/// The share of the files of a model that a machine publishes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Share {
    /// All files, and then the entry.
    #[default]
    All,
    /// The files of one of `count` machines, which may run at the same time.
    Part {
        /// The number of the machine, from 1.
        number: usize,
        /// The number of machines.
        count: usize,
    },
    /// Only the entry, from the records of all files.
    Merge,
}

/// Headers may be secrets, and are left out.
impl std::fmt::Debug for PublishOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("PublishOptions");
        shown.field("convert", &self.convert).field("share", &self.share).field("previous", &self.previous);
        shown.field("replace_foreign", &self.replace_foreign).finish_non_exhaustive()
    }
}

impl Default for PublishOptions {
    fn default() -> Self {
        let convert = ConvertOptions::default().order(TensorOrder::Layers);
        PublishOptions { convert, share: Share::default(), previous: None, headers: Vec::new(), replace_foreign: false }
    }
}

impl PublishOptions {
    /// Sets [`convert`](Self#structfield.convert).
    #[must_use]
    pub fn with_convert(self, convert: ConvertOptions) -> Self {
        Self { convert, ..self }
    }

    /// Sets [`share`](Self#structfield.share).
    #[must_use]
    pub fn with_share(self, share: Share) -> Self {
        Self { share, ..self }
    }

    /// Sets [`previous`](Self#structfield.previous).
    #[must_use]
    pub fn with_previous(self, previous: Option<String>) -> Self {
        Self { previous, ..self }
    }

    /// Sets [`headers`](Self#structfield.headers).
    #[must_use]
    pub fn with_headers(self, headers: Vec<(String, String)>) -> Self {
        Self { headers, ..self }
    }

    /// Sets [`replace_foreign`](Self#structfield.replace_foreign).
    #[must_use]
    pub fn with_replace_foreign(self, replace_foreign: bool) -> Self {
        Self { replace_foreign, ..self }
    }
}

impl PublishOptions {
    /// What happens to files of others at the destination.
    pub(super) fn foreign(&self) -> Existing {
        if self.replace_foreign { Existing::Replace } else { Existing::Keep }
    }
}

impl Share {
    /// The share of one of `count` machines. The first has the number 1.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` unless `number` is between 1 and `count`.
    pub fn part(number: usize, count: usize) -> Result<Share> {
        if (1..=count).contains(&number) {
            return Ok(Share::Part { number, count });
        }
        let what = format!("there is no part {number} of {count}");
        Err(Error::new(ErrorKind::InvalidArgument, what).advise("The parts are numbered from 1: `1/4` to `4/4`."))
    }

    /// The numbers of the files, of `files` in total. Parts are contiguous, because neighbouring tensors are read with
    /// one request.
    pub(super) fn files(self, files: usize) -> Range<usize> {
        match self {
            Share::All => 0..files,
            Share::Part { number, count } => {
                let start = |number: usize| (files as u128 * number as u128 / count as u128) as usize;
                start(number - 1)..start(number)
            }
            Share::Merge => 0..0,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn every_file_belongs_to_one_part() {
        for (files, count) in [(0, 1), (1, 3), (7, 3), (8, 8), (1024, 7)] {
            let parts = (1..=count).map(|number| Share::part(number, count).unwrap().files(files));
            assert_eq!(parts.flatten().collect::<Vec<_>>(), (0..files).collect::<Vec<_>>());
        }
    }

    #[test]
    fn refuses_parts_that_do_not_exist() {
        assert!(Share::part(0, 4).is_err() && Share::part(5, 4).is_err() && Share::part(1, 0).is_err());
    }
}
