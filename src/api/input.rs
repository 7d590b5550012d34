//! Models as inputs of conversions.

use super::blocking::{Model, Reading};
use crate::error::Result;
use crate::write::{AsInput, Input};

#[doc(hidden)]
impl AsInput for Model {
    fn with_input(&self, work: &mut dyn FnMut(&dyn Input) -> Result<()>) -> Result<()> {
        match &self.reading {
            Reading::Local(local) => work(local.plain_reader("the files that are written")?),
            #[cfg(feature = "http")]
            Reading::Remote(remote) => {
                let source = super::place::http_source(&remote.url, &remote.options)?;
                let options = remote.options.loader.clone();
                work(&crate::native::RemoteReader::open_source(source, options)?)
            }
            #[cfg(not(feature = "http"))]
            Reading::Remote(remote) => {
                use crate::error::{Error, ErrorKind};
                Err(Error::new(ErrorKind::Internal, "URLs cannot be opened").in_file(&remote.url))
            }
        }
    }
}
