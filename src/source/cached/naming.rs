//! What the file at a URL is cached under.

use crate::cache::key;
use crate::error::{Error, ErrorKind, Result};
use js_sys::Function;
use wasm_bindgen::{JsCast, JsValue};

/// How files are named: by the caller's `cacheKey`, else by their URLs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Naming(pub(crate) Option<Function>);

impl Naming {
    /// The name of the file at an absolute URL.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` where the caller's function throws or returns something that is no name.
    pub(crate) fn name(&self, url: &str) -> Result<String> {
        let Some(function) = &self.0 else { return Ok(key::name_of_url(url)) };
        let invalid = |what: String| Error::new(ErrorKind::InvalidArgument, what).in_file(url);
        let returned = function.call1(&JsValue::UNDEFINED, &url.into()).map_err(|thrown| {
            let text = thrown.dyn_ref::<js_sys::Error>().map(|error| String::from(error.to_string()));
            let text = text.or_else(|| thrown.as_string()).unwrap_or_default();
            let mut error = invalid(format!("`cacheKey` threw an exception for this URL ({text})"));
            error.place.cause = Some(thrown);
            error
        })?;
        let name = returned.as_string().ok_or_else(|| invalid("`cacheKey` returned no string for this URL".into()))?;
        if key::is_name(&name) {
            return Ok(name);
        }
        let what = "`cacheKey` returned a string that is empty, longer than 32 KiB or contains control characters";
        Err(invalid(what.to_owned()))
    }
}
