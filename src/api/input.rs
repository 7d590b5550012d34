//! Models as inputs of conversions.

use super::blocking::{Model, Reading};
use crate::error::Result;
use crate::write::{AsInput, Input};

#[doc(hidden)]
impl AsInput for Model {
    fn with_input(&self, work: &mut (dyn FnMut(&dyn Input) -> Result<()> + Send)) -> Result<()> {
        match &self.reading {
            Reading::Local(local) => work(local.unpinned_reader("the files that are written")?),
            #[cfg(feature = "http")]
            Reading::Remote(remote) => {
                let mut read = || {
                    let source = super::place::model_source(&remote.url, &remote.options)?;
                    let adapters = super::place::adapters_at_urls(&remote.url, &remote.options)?;
                    let options = remote.options.loader.clone();
                    work(&crate::native::RemoteReader::open_with(source, adapters, options)?)
                };
                // On a thread of its own, because a task of tokio cannot start the runtime of the reader.
                let ended = std::thread::scope(|scope| scope.spawn(&mut read).join());
                ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
            #[cfg(not(feature = "http"))]
            Reading::Remote(remote) => {
                use crate::error::{Error, ErrorKind};
                Err(Error::new(ErrorKind::Internal, "URLs cannot be opened").in_file(&remote.url))
            }
        }
    }
}
