//! Which tensors `inspect` lists, and in which order.

use clap::ValueEnum;
use globset::{Glob, GlobBuilder, GlobSetBuilder};
use std::cmp::Reverse;
use weightstream::internals::index::Tensor;
use weightstream::{Error, ErrorKind, Result};

/// The options that select tensors.
#[derive(clap::Args)]
pub(super) struct SelectArguments {
    /// List only tensors whose name matches this pattern, such as 'encoder.*.weight'. `*` is any text, `?` any
    /// character, `[ab]` and `{a,b}` alternatives. Can be repeated: any of the patterns must match.
    #[arg(long = "filter", value_name = "GLOB", value_parser = glob)]
    filters: Vec<Glob>,
    /// The order of the tensors; `size` lists the largest first.
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = Sort::File)]
    sort: Sort,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sort {
    /// As in the files
    File,
    /// By name
    Name,
    /// By decoded size, the largest first
    Size,
    /// By dtype
    Dtype,
}

impl SelectArguments {
    /// Whether only some tensors are listed.
    pub(super) fn is_filtered(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Returns the tensors to list, in file order.
    pub(super) fn filter<'a>(&self, tensors: &'a [Tensor], file: &str) -> Result<Vec<&'a Tensor>> {
        if !self.is_filtered() {
            return Ok(tensors.iter().collect());
        }
        let mut set = GlobSetBuilder::new();
        for glob in &self.filters {
            set.add(glob.clone());
        }
        let set = set.build().map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))?;
        let matching: Vec<_> = tensors.iter().filter(|tensor| set.is_match(&tensor.name)).collect();
        if matching.is_empty() {
            let patterns = self.filters.iter().map(|glob| format!("`{glob}`")).collect::<Vec<_>>().join(", ");
            let error = Error::new(ErrorKind::NotFound, format!("no tensor has a name that matches {patterns}"));
            return Err(error.advise("A pattern matches whole names: `*.bias`, not `bias`.").in_file(file));
        }
        Ok(matching)
    }

    /// Sorts items by their tensor. Equal ones stay in file order.
    pub(super) fn sort<T>(&self, items: &mut [T], tensor: impl Fn(&T) -> &Tensor) {
        match self.sort {
            Sort::File => {}
            Sort::Name => items.sort_by(|one, other| tensor(one).name.cmp(&tensor(other).name)),
            Sort::Size => items.sort_by_key(|item| Reverse(size(tensor(item)))),
            Sort::Dtype => items.sort_by(|one, other| tensor(one).dtype.name().cmp(tensor(other).dtype.name())),
        }
    }
}

fn size(tensor: &Tensor) -> u64 {
    tensor.byte_length().unwrap_or(tensor.stored_length())
}

/// Parses a pattern. `*` also matches `/`, which is part of names such as `encoder/layer_0/kernel`.
fn glob(pattern: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(false).backslash_escape(true).build()
}
