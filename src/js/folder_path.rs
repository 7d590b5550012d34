//! The deferred code that maps cached files to paths in a folder of the user.

use crate::names::path_in_folder;
use wasm_bindgen::JsValue;

pub(super) async fn path(name: String) -> Result<JsValue, JsValue> {
    Ok(path_in_folder(&name).into())
}
