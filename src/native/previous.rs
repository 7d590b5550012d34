//! A local model as the previous revision of a published one.

use super::Reader;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Component;
use crate::loader::PreviousTensors;

impl PreviousTensors for Reader {
    fn has(&self, name: &str) -> bool {
        self.tensor(name).is_ok()
    }

    fn dense(&self, name: &str) -> Result<Vec<u8>> {
        let tensor = self.tensor(name)?;
        let [Component { role, .. }] = tensor.components.as_slice() else {
            return Err(Error::new(ErrorKind::NotFound, "the tensor is not dense").in_tensor(name));
        };
        let mut bytes = Vec::new();
        self.read_pieces(name, role, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }
}
