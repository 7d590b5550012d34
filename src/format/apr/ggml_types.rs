//! Tensors of dtypes that ggml has and the specification lacks, such as Q4_K. In the index, all of them have one code,
//! and the metadata has the type of each. Only weightstream writes and reads them.

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format::ggml;
use crate::index::Metadata;
use crate::values::json::shown;
use serde_json::Value;

/// The code in the index. The specification defines no code above 20.
pub(super) const CODE: u8 = 0xf0;

/// The key of the metadata. Its value is an object of tensor names; the value of a tensor is the type's number in ggml,
/// which GGUF files contain too.
pub(super) const KEY: &str = "weightstream.ggml_types";

/// Takes the types of a file's tensors out of its metadata.
pub(super) fn take(metadata: &mut Metadata) -> Value {
    metadata.shift_remove(KEY).unwrap_or_default()
}

/// Returns the dtype of a tensor that has [`CODE`].
pub(super) fn dtype_of(types: &Value, tensor: &str) -> Result<Dtype> {
    let Some(stated) = types.get(tensor) else {
        let what = format!("its dtype has code {CODE}, but `{KEY}` in the metadata does not state its type");
        return Err(malformed(what));
    };
    let number = stated.as_u64().and_then(|number| u32::try_from(number).ok());
    number.and_then(ggml::dtype_of).cloned().ok_or_else(|| {
        let what = format!("`{KEY}` in the metadata states the type {} for it, which is unknown", shown(stated));
        Error::new(ErrorKind::Unsupported, what).advise("A later version of weightstream may read it.")
    })
}
