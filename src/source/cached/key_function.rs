//! The `cacheKey` option.

use crate::cache::key;
use crate::error::{Error, ErrorKind, Result};
use js_sys::Function;
use wasm_bindgen::{JsCast, JsValue};

/// Computes the cache name of a file: by the caller's `cacheKey`, or else from its URL.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyFunction(pub(crate) Option<Function>);

impl KeyFunction {
    /// The name of the file at an absolute URL.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the caller's function throws an exception or returns an invalid name.
    pub(crate) fn name(&self, url: &str) -> Result<String> {
        let Some(function) = &self.0 else { return Ok(key::name_of_url(url)) };
        let invalid = |what: String| Error::new(ErrorKind::InvalidArgument, what).in_file(url);
        let returned = function.call1(&JsValue::UNDEFINED, &url.into()).map_err(|thrown| {
            let text = thrown.dyn_ref::<js_sys::Error>().map(|error| String::from(error.to_string()));
            let text = text.or_else(|| thrown.as_string()).unwrap_or_default();
            let mut error = invalid(format!("`cacheKey` threw an exception for this URL ({text})"));
            error.context.cause = Some(thrown);
            error
        })?;
        let no_string = || invalid("`cacheKey` did not return a string for this URL".into());
        let name = returned.as_string().ok_or_else(no_string)?;
        if key::is_name(&name) {
            return Ok(name);
        }
        let what = "`cacheKey` returned a string that is empty, longer than 32 KiB or contains control characters";
        Err(invalid(what.to_owned()))
    }
}
