//! Reads files of a model that are kept open.

use std::cell::Cell;
use std::ops::Range;

use anyhow::Result;
use weightstream::Error;
use weightstream::RetryPolicy;
use weightstream::internals::loader::RemoteFile;
use weightstream::internals::source::http::HttpSource;

use super::check::FileCheck;
use super::model::Model;

/// The files of the model, opened one at a time.
pub struct OpenFiles<'a> {
    /// The URL of the file that is opened to load the model.
    url: &'a str,
    retry: RetryPolicy,
    bytes_received: Cell<u64>,
}

impl<'a> OpenFiles<'a> {
    pub fn new(url: &'a str, retry: RetryPolicy) -> Self {
        OpenFiles { url, retry, bytes_received: Cell::new(0) }
    }

    pub fn bytes_received(&self) -> u64 {
        self.bytes_received.get()
    }

    /// Reads ranges of a file, one after another. The outer error is the loader's, the inner one reports wrong bytes.
    pub async fn read(&self, model: &Model, name: &str, ranges: &[Range<u64>]) -> Result<Result<u64>, Error> {
        let folder = self.url.rsplit_once('/').map_or("", |(folder, _)| folder);
        let file = RemoteFile::open(HttpSource::new(&format!("{folder}/{name}"), &[])?, self.retry, None).await?;
        let mut check = FileCheck::new(model, name);
        let reads = async {
            for range in ranges {
                let (mut reader, mut bytes) = (file.read(range.clone()), Vec::new());
                let take = |buffer: &Vec<u8>, length: u64| buffer.get(..length as usize).map(<[u8]>::to_vec);
                while let Some(chunk) = reader.chunk(take).await? {
                    bytes.extend(chunk.unwrap_or_default());
                }
                if let Err(wrong) = check.read(range, bytes.len() as u64, |expected| expected == bytes) {
                    return Ok(Err(wrong));
                }
            }
            Ok(Ok(0))
        };
        let outcome = reads.await;
        self.bytes_received.set(self.bytes_received.get() + file.stats().bytes_received());
        outcome
    }
}
