//! Bindings to Web APIs that pages and workers both have, used by the layers above.

#[cfg(feature = "web-workers")]
pub(crate) mod console;
#[cfg(feature = "js")]
pub(crate) mod csp;
#[cfg(feature = "js")]
pub(crate) mod deferred;
pub(crate) mod host;
#[cfg(feature = "web-workers")]
pub(crate) mod lock;
#[cfg(feature = "web-workers")]
pub(crate) mod message;
#[cfg(feature = "web-workers")]
pub(crate) mod navigator;
pub(crate) mod timer;
pub(crate) mod type_tag;
#[cfg(feature = "web-workers")]
pub(crate) mod worker;
