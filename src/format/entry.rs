//! The registry entry of a format.

use super::checksum::RangeChecksum;
use crate::codec::pages::Pages;
use crate::deferred::Code;
use crate::error::{Error, ErrorKind, Result};
use crate::index::padding::PaddingCheck;
use crate::index::{Manifest, PageTable, Parsed, Tensor};
#[cfg(writes)]
use crate::output::writer::Writer;
use crate::values::budget::Budget;
use crate::window::{Stop, Window};
use serde_json::{Map, Value};
use std::borrow::Borrow;
use std::fmt;

/// A format that weightstream reads. [`formats`](super::formats) lists them.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Format {
    /// The name in the command line and in [`Index::format`](crate::index::Index::format): `"safetensors"`. The Cargo
    /// feature, the module and the folder of fixtures have the same name.
    pub name: &'static str,
    /// The name in documentation: `"SafeTensors"`.
    pub title: &'static str,
    /// File name extensions with their dot, the usual one first.
    pub extensions: &'static [&'static str],
    /// The versions that weightstream reads, as written in files.
    pub versions: &'static [&'static str],
    /// The algorithms of the checksums that weightstream verifies in files of this format.
    #[doc(hidden)]
    pub checksums: &'static [&'static str],
    pub(crate) parser: Parser,
    #[cfg(writes)]
    pub(crate) writer: Option<Writer>,
}

impl Format {
    /// The part of the npm package's module that has the code of this format, which is loaded only when a file of it is
    /// opened: its place in the list of parts. `None` for the main part.
    #[doc(hidden)]
    pub fn part(&self) -> Option<usize> {
        self.parser.code.map(|code| code as usize)
    }

    /// Reads the header and index of a file of this format.
    ///
    /// # Errors
    /// [`Stop::Need`] while bytes are missing; [`Stop::Failed`] if the file is invalid.
    #[doc(hidden)]
    pub fn parse(&self, window: &Window) -> Result<Parsed, Stop> {
        (self.parser.parse)(window)
    }

    /// Lists the checksums that cover byte ranges of the file. Needs the head and the length of the file, but not its
    /// tail.
    ///
    /// # Errors
    /// As for [`Format::parse`].
    #[doc(hidden)]
    pub fn stretch_checksums(&self, window: &Window) -> Result<Vec<RangeChecksum>, Stop> {
        (self.parser.checksums)(window)
    }

    /// Checks the marks at the end of the file, if the format has any.
    ///
    /// # Errors
    /// `TRUNCATED` if the file does not end with the marks; otherwise as for [`Format::parse`].
    #[doc(hidden)]
    pub fn check_tail(&self, window: &Window) -> Result<(), Stop> {
        (self.parser.check_tail)(window)
    }

    /// The check of the padding of a file with these tensors, if the format requires zeros.
    ///
    /// # Errors
    /// As for [`Format::parse`].
    pub(crate) fn padding_check(
        &self,
        window: &Window,
        tensors: impl Iterator<Item = impl Borrow<Tensor>>,
    ) -> Result<Option<PaddingCheck>, Stop> {
        self.parser.padding_check(window, tensors)
    }

    /// The writer of the format; `None` if weightstream only reads the format.
    #[doc(hidden)]
    #[cfg(writes)]
    pub fn writer(&self) -> Option<&Writer> {
        self.writer.as_ref()
    }
}

#[doc(hidden)]
impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Format").field(&self.name).finish()
    }
}

/// The functions that read files of a format. They read as if the whole file were in memory, and return
/// [`Stop::Need`] if bytes are missing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parser {
    pub(crate) detection: Detection,
    /// The part of the npm package's module that has the code of the format, which is loaded when a file of it is
    /// opened. `None` for the main part, which also has the code of all detection: see `xtask/src/parts.rs`.
    pub(crate) code: Option<Code>,
    /// Reads the header and index. Never allocates more than the size of the file because of a count in it.
    pub(crate) parse: fn(&Window) -> Result<Parsed, Stop>,
    /// Lists the checksums of byte ranges of the file, from its head and its length.
    pub(crate) checksums: fn(&Window) -> Result<Vec<RangeChecksum>, Stop>,
    /// Checks the marks at the end of the file.
    pub(crate) check_tail: fn(&Window) -> Result<(), Stop>,
    /// The padding that must be zero; `None` if the format or the version does not require it.
    pub(crate) zero_padding: fn(&Window) -> Result<Option<ZeroPadding>, Stop>,
    /// Reads the digests of a component's pages.
    pub(crate) page_digests: fn(&Window, &PageTable) -> Result<Pages, Stop>,
    /// The parser of the JSON manifest of a model in several files.
    pub(crate) manifest: Option<ManifestParser>,
    /// Whether models in several files have the manifest of SafeTensors, which serves any format.
    pub(crate) has_weight_map: bool,
    /// Whether a numbered file of a model in several files leads to the others.
    pub(crate) is_split_by_number: bool,
    /// Whether files may name files of raw bytes.
    pub(crate) has_data_files: bool,
    /// Whether files of the format are the model of a folder only if there is none of another format. They often lie
    /// beside it: the checkpoint that it was made of, or arrays that belong to another program.
    pub(crate) is_last_choice: bool,
}

impl Parser {
    /// Creates a parser for files without a manifest, tail marks, page digests, or checksums over several tensors.
    pub(crate) const fn new(detection: Detection, parse: fn(&Window) -> Result<Parsed, Stop>) -> Self {
        Parser {
            detection,
            code: None,
            parse,
            checksums: |_| Ok(Vec::new()),
            check_tail: |_| Ok(()),
            zero_padding: |_| Ok(None),
            page_digests: no_page_digests,
            manifest: None,
            has_weight_map: false,
            is_split_by_number: false,
            has_data_files: false,
            is_last_choice: false,
        }
    }
}

impl Parser {
    /// The same parser, whose code is in the part of rare formats.
    #[cfg(any(feature = "aero", feature = "burnpack", feature = "embd", feature = "onnx", feature = "ztensor"))]
    pub(crate) const fn deferred(self) -> Self {
        self.deferred_to(Code::Formats)
    }

    /// The same parser, whose code is in the part of containers of other tools.
    #[cfg(any(
        feature = "hdf5",
        feature = "mlc",
        feature = "npy",
        feature = "npz",
        feature = "pytorch",
        feature = "tfjs",
        feature = "tflite"
    ))]
    pub(crate) const fn in_containers(self) -> Self {
        self.deferred_to(Code::Containers)
    }

    /// The same parser, whose code is in this part.
    pub(super) const fn deferred_to(self, code: Code) -> Self {
        Parser { code: Some(code), ..self }
    }

    /// The parser itself, if its code is loaded.
    pub(super) fn loaded(&'static self) -> Result<&'static Parser, Stop> {
        self.code.map_or(Ok(()), super::deferred::check)?;
        Ok(self)
    }
}

/// Padding between components that must be zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ZeroPadding {
    /// The number of bytes before the first padding.
    pub(crate) head_bytes: u64,
    /// The alignment of components.
    pub(crate) alignment: u64,
}

impl Parser {
    /// The check of the padding of a file with these tensors, if the format requires zeros.
    pub(crate) fn padding_check(
        &self,
        window: &Window,
        tensors: impl Iterator<Item = impl Borrow<Tensor>>,
    ) -> Result<Option<PaddingCheck>, Stop> {
        let zero_padding = (self.zero_padding)(window)?;
        Ok(zero_padding.map(|ZeroPadding { head_bytes, alignment }| PaddingCheck::new(tensors, head_bytes, alignment)))
    }
}

/// How a format is detected from the first [`SNIFF_BYTES`](super::SNIFF_BYTES) of a file, or from the whole file if
/// it is shorter.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Detection {
    /// The file begins with one of these.
    Magic(&'static [&'static [u8]]),
    /// The format has no magic. Called only if no format's magic matches.
    Heuristic(fn(&[u8]) -> bool),
    /// Like `Heuristic`, with the first [`HEAD_BYTES`](super::HEAD_BYTES): the name of the first member of an archive
    /// is farther from the start.
    LongHead(fn(&[u8]) -> bool),
    /// The file is a JSON document, which only its [`ManifestParser`] recognises.
    Document,
}

/// The functions that read the manifest of a model in several files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ManifestParser {
    /// Whether a JSON document is a manifest of this format. Called in the order of the registry.
    pub(crate) recognises: fn(&Map<String, Value>) -> bool,
    pub(crate) parse: ParseDocument,
    /// The extensions of the format that manifests may have in place of `.json`.
    pub(crate) extensions: &'static [&'static str],
    /// The names of documents that are the model if no other file is.
    pub(crate) names: &'static [&'static str],
}

/// Reads a document that names files of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ParseDocument {
    /// The files have tensors that they list themselves.
    Manifest(fn(&Map<String, Value>) -> Result<Manifest>),
    /// The document lists the tensors, and the files are raw bytes. The budget is what its values have left.
    Tensors(fn(Map<String, Value>, &mut Budget) -> Result<Parsed>),
}

/// How the files of a format are named.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileNames {
    pub(crate) extensions: &'static [&'static str],
    /// Those extensions that manifests may have, too.
    pub(crate) manifest_extensions: &'static [&'static str],
    /// The names of documents that are the model if no other file is.
    pub(crate) document_names: &'static [&'static str],
    /// Whether manifests may be documents with a name that ends with `.json`.
    pub(crate) has_manifest: bool,
    pub(crate) is_split_by_number: bool,
    pub(crate) has_data_files: bool,
    pub(crate) is_last_choice: bool,
}

impl FileNames {
    pub(super) const fn of(format: &Format) -> Self {
        let Format { extensions, parser, .. } = format;
        let (manifest_extensions, document_names): (&[&str], &[&str]) = match parser.manifest {
            Some(manifest) => (manifest.extensions, manifest.names),
            None => (&[], &[]),
        };
        let has_manifest = (parser.manifest.is_some() && document_names.is_empty()) || parser.has_weight_map;
        let Parser { is_split_by_number, has_data_files, is_last_choice, .. } = *parser;
        FileNames {
            extensions,
            manifest_extensions,
            document_names,
            has_manifest,
            is_split_by_number,
            has_data_files,
            is_last_choice,
        }
    }
}

fn no_page_digests(_: &Window, table: &PageTable) -> Result<Pages, Stop> {
    Err(Error::new(ErrorKind::Internal, "this format has no page digests").at(table.at.clone()).into())
}
