//! Where a caller wants files to be cached, and what becomes of that.

use super::Own;
use super::client::Client;
use super::status::{Kind, Status};
use crate::error::{Error, ErrorKind};
use std::rc::Rc;

/// What `cache` says.
#[derive(Debug, Clone)]
pub(crate) enum Choice {
    /// Wherever it makes sense.
    Auto,
    /// In the origin private file system, even if that is in memory.
    Files,
    /// In an object of the caller's.
    Own(Own),
}

impl Choice {
    /// The cache, if there can be one; and what is wrong, also where there is one in another place than it should be.
    pub(crate) async fn open(self) -> (Option<Rc<Client>>, Option<Error>) {
        let is_forced = match self {
            Choice::Own(own) => return (Some(Client::of(own)), None),
            Choice::Files => true,
            Choice::Auto => false,
        };
        let client = Client::get();
        let Status { kind, why } = client.status().await;
        let refused = |what: String| (None, Some(Error::new(ErrorKind::Unsupported, what)));
        match kind {
            Kind::Nothing => refused(format!("nothing can be cached here: {why}")),
            Kind::Memory if !is_forced => refused(
                "nothing is cached, because the browser keeps the origin private file system in memory here, as in a \
                 private window: `cache: \"opfs\"` has it used all the same"
                    .to_owned(),
            ),
            Kind::Database if is_forced => {
                refused(format!("nothing is cached, because the origin private file system cannot be used here: {why}"))
            }
            _ => {
                let fault = client.start_fault();
                let instead = |fault: Error| {
                    Error::new(fault.kind, format!("{}; files are cached in IndexedDB instead", fault.what))
                };
                (Some(client), fault.map(instead))
            }
        }
    }
}
