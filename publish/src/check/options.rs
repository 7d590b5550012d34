//! What the checks assume of the page.

/// The page that [`check`](super::check()) stands for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckOptions {
    /// The origin of the page, such as `https://app.example`.
    pub origin: String,
    /// Headers (name and value) that the page sends, only to the origin of the model. Browsers send a preflight request
    /// for them.
    pub headers: Vec<(String, String)>,
    /// Whether redirects and files of the model at other origins are rejected.
    pub same_origin_only: bool,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions { origin: "https://app.example".to_owned(), headers: Vec::new(), same_origin_only: false }
    }
}
