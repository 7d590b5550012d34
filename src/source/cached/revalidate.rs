//! Revalidation: asks the server for the current version of a cached file, and decides whether cached bytes may be used
//! if the request fails.
//!
//! | server | cached public bytes | cached bytes of requests with credentials, or of signed URLs |
//! | --- | --- | --- |
//! | responds with the file | used if the version is the same | used if the version is the same |
//! | refuses access (401, 403, 404 …) | error | error |
//! | fails temporarily (429, 5xx) | used | error |
//! | responds without CORS headers | error | error |
//! | is slow, but reachable | used | wait for the response |
//! | is unreachable, or the browser is offline | used | used |

use super::reachability::{Reachability, probe};
use crate::browser::navigator::is_offline;
use crate::browser::timer::pause;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::source::fetch::FetchSource;
use crate::source::js_buffer::JsBuffer;
use crate::source::{Body, Buffer};
use futures::future::{self, Either, FutureExt, LocalBoxFuture};
use std::pin::pin;

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Public,
    /// Requests have credentials or a signed URL.
    Private,
}

/// How long to wait for the response before checking whether the server is reachable.
const PROBE_DELAY_MS: u64 = 5_000;

/// The same for a file with mirrors: an address that stays silent should cost little.
const PROBE_DELAY_WITH_MIRRORS_MS: u64 = 1_000;

/// Returns the server's current version of the file. `None` if there is no response and cached bytes may be used
/// nevertheless. Those of a private file require that the server confirms access.
///
/// # Errors
/// Those of the request, if cached bytes must not be used.
pub(super) fn revalidate(source: &FetchSource, access: Access) -> LocalBoxFuture<'_, Result<Option<Identity>>> {
    request_identity(source, access).boxed_local()
}

async fn request_identity(source: &FetchSource, access: Access) -> Result<Option<Identity>> {
    if is_offline() {
        return Ok(None);
    }
    let mut response = requested_identity(source).boxed_local();
    let delay_ms = if source.has_mirrors() { PROBE_DELAY_WITH_MIRRORS_MS } else { PROBE_DELAY_MS };
    let outcome = match future::select(&mut response, pin!(pause(delay_ms))).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => match probe(source.name()).await {
            Reachability::Unreachable => return Ok(None),
            Reachability::Reachable | Reachability::Unknown if access == Access::Public => return Ok(None),
            Reachability::Reachable | Reachability::Unknown => response.await,
        },
    };
    match outcome {
        Ok(identity) => Ok(Some(identity)),
        Err(error) => check_stale_use(source, access, error).await.map(|()| None),
    }
}

/// The version in the response to a request for one byte. That byte is read, because dropping the body before its end
/// cancels the request: the network panel would show an error, and the connection would be closed.
async fn requested_identity(source: &FetchSource) -> Result<Identity> {
    let mut answer = source.read_alone(0..1).await?; // a mirror says nothing about the version that is cached
    if answer.end == Some(answer.start + 1) {
        answer.body.read(&mut JsBuffer::allocate(1)?, 0..1).await?;
    }
    Ok(answer.identity)
}

/// Returns the error of the request unless cached bytes may be used nevertheless.
async fn check_stale_use(source: &FetchSource, access: Access, error: Error) -> Result<()> {
    let has_response = error.context.status.is_some();
    if !error.is_transient || (has_response && access == Access::Private) {
        return Err(error);
    }
    if has_response {
        return Ok(());
    }
    match probe(source.name()).await {
        Reachability::Unreachable => Ok(()),
        Reachability::Unknown if access == Access::Public => Ok(()),
        Reachability::Unknown => Err(with_reason(
            error,
            "a page that is isolated from other origins cannot distinguish a lost connection from a response without \
             CORS headers, such as that to an expired login, so the cached file is not used",
        )),
        Reachability::Reachable => Err(with_reason(
            error,
            "the server is reachable: it probably responded without CORS headers, so the browser hides the response, \
             for example to an expired login or signature (401, 403), and the cached file is not used",
        )),
    }
}

fn with_reason(mut error: Error, why: &str) -> Error {
    error.what = format!("{}; {why}", error.what);
    error.advise("Log in again or get a new URL, and configure the server to send CORS headers with its errors, too.")
}
