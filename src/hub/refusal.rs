//! What a hub means by an unsuccessful status: its headers `X-Error-Code` and `X-Error-Message` say more.

use super::{Address, Reply};
use crate::error::{Error, ErrorKind};

const TOKEN: &str = "a token (`hub: { token }` in JavaScript, HF_TOKEN for the command line)";

/// The error for a status that another request would get again. `None` for any other status.
pub(super) fn refusal(address: &Address, reply: &Reply) -> Option<Error> {
    let Address { repository, revision, .. } = address;
    let path = address.path.as_deref().unwrap_or_default();
    let page = address.page();
    let (what, advice) = match (reply.error_code.as_deref(), reply.status) {
        (Some("GatedRepo"), _) => (
            format!("the repository {repository} is gated"),
            format!("Accept its conditions at {page}, and pass {TOKEN} of the account that did."),
        ),
        (Some("RepoNotFound"), _) | (None, 401) => (
            format!("there is no repository {repository} that this request may read"),
            format!("Check the name. A private repository needs {TOKEN} of an account that may read it."),
        ),
        (Some("RevisionNotFound"), _) => (
            format!("the repository {repository} has no revision \"{revision}\""),
            format!("See the branches and tags at {page}/tree/main."),
        ),
        (Some("EntryNotFound"), _) => (
            format!("the repository {repository} has no file \"{path}\" at the revision \"{revision}\""),
            format!("See the files at {page}/tree/main."),
        ),
        (Some("DisabledRepo"), _) => {
            (format!("the repository {repository} is disabled"), format!("See {page} for the reason."))
        }
        (_, 401 | 403) => {
            let message = reply.error_message.as_deref().unwrap_or("no reason is given");
            (
                format!("the hub refuses access to {repository}: {message}"),
                format!("See {page}, and pass {TOKEN} of an account that may read it."),
            )
        }
        _ => return None,
    };
    Some(Error::new(ErrorKind::Http, what).with_status(reply.status).advise(advice))
}
