//! The native readers as inputs.

use super::checked::Checked;
use super::input::Input;
use crate::error::Result;
use crate::index::Tensor;
use crate::loader::ModelMetadata;
use crate::native::Reader;
use crate::window::{Stop, Window};
use std::path::Path;
use std::time::SystemTime;

impl Input for Reader {
    fn metadata(&self) -> &ModelMetadata {
        Reader::metadata(self)
    }

    fn tensors(&self) -> &[Tensor] {
        Reader::tensors(self)
    }

    fn read_pieces(&self, tensor: &Tensor, role: &str, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        Reader::read_pieces(self, &tensor.name, role, emit).map(drop)
    }

    fn parse_first(&self, parse: &dyn Fn(&Window) -> Result<(), Stop>) -> Result<()> {
        Reader::parse_first(self, parse)
    }

    fn modified(&self) -> Option<SystemTime> {
        Reader::paths(self).next().and_then(|path| path.metadata().ok()?.modified().ok())
    }

    fn version(&self) -> Option<String> {
        let mut version = String::new();
        for path in Reader::paths(self) {
            let metadata = path.metadata().ok()?;
            let modified = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            version.push_str(&format!("{} bytes, modified {} ms; ", metadata.len(), modified.as_millis()));
        }
        Some(version).filter(|version| !version.is_empty())
    }

    fn paths(&self) -> Vec<&Path> {
        Reader::paths(self).collect()
    }

    fn begin(&self) -> Result<Option<Box<dyn Input + '_>>> {
        Ok(Some(Box::new(Checked::begin(self)?)))
    }
}

#[cfg(http_client)]
impl<S: crate::source::ModelSource> Input for crate::native::RemoteReader<S> {
    fn metadata(&self) -> &ModelMetadata {
        Self::metadata(self)
    }

    fn tensors(&self) -> &[Tensor] {
        Self::tensors(self)
    }

    fn read_pieces(&self, tensor: &Tensor, role: &str, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        Self::read_pieces(self, tensor, role, emit).map(drop)
    }

    fn parse_first(&self, parse: &dyn Fn(&Window) -> Result<(), Stop>) -> Result<()> {
        Self::parse_first(self, parse)
    }

    fn version(&self) -> Option<String> {
        Self::version(self)
    }

    fn urls(&self) -> Vec<&str> {
        Self::urls(self).collect()
    }

    fn begin(&self) -> Result<Option<Box<dyn Input + '_>>> {
        Ok(Some(Box::new(Checked::begin(self)?)))
    }
}
