//! The list of the chunks of all files of a revision.

use super::entry::Document;
use super::files::FileWriter;
use super::record::FileRecord;
use crate::error::Result;

/// Sends the list.
pub(super) fn send(writer: &FileWriter, records: &[FileRecord]) -> Result<Document> {
    let _ = records;
    writer.send_document("model.chunks", Vec::new())
}
