//! What the server says of a file of which bytes are cached, and when they are used without its word.
//!
//! | the server | public bytes | bytes of requests with credentials, or of signed URLs |
//! | --- | --- | --- |
//! | answers with the file | used if it is the same version | likewise |
//! | refuses (401, 403, 404 …) | the error | the error |
//! | is in trouble (429, 5xx) | used | the error |
//! | answers, but without CORS headers | the error | the error |
//! | is slow, and answers other requests | used | its answer is waited for |
//! | cannot be reached, or the browser is offline | used | used |

use super::CachedFile;
use super::reach::{Reach, reach};
use crate::browser::navigator::is_offline;
use crate::browser::timer::pause;
use crate::error::{Error, Result};
use crate::identity::Identity;
use futures::future::{self, Either, FutureExt, LocalBoxFuture};
use std::pin::pin;

/// For so long a server is waited for before it is tried whether it can be reached at all.
const PROBE_MS: u64 = 5_000;

/// What the server has now; `None` where it says nothing, and cached bytes are to be used all the same.
///
/// # Errors
/// Those of the request, where they are not.
pub(super) fn ask(file: &CachedFile) -> LocalBoxFuture<'_, Result<Option<Identity>>> {
    word_of(file).boxed_local()
}

async fn word_of(file: &CachedFile) -> Result<Option<Identity>> {
    if is_offline() {
        return Ok(None);
    }
    let mut asked = file.source.read(0..1).boxed_local();
    let outcome = match future::select(&mut asked, pin!(pause(PROBE_MS))).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => match reach(file.source.name()).await {
            Reach::None => return Ok(None),
            Reach::Answers | Reach::Unknown if !file.is_private => return Ok(None),
            Reach::Answers | Reach::Unknown => asked.await,
        },
    };
    match outcome {
        Ok(answer) => Ok(Some(answer.identity)),
        Err(error) => without_word(file, error).await.map(|()| None),
    }
}

/// Whether cached bytes are used although the request failed.
async fn without_word(file: &CachedFile, error: Error) -> Result<()> {
    let was_answered = error.place.status.is_some();
    if !error.is_transient || (was_answered && file.is_private) {
        return Err(error);
    }
    if was_answered {
        return Ok(());
    }
    match reach(file.source.name()).await {
        Reach::None => Ok(()),
        Reach::Unknown if !file.is_private => Ok(()),
        Reach::Unknown => Err(explained(
            error,
            "a page that is isolated from other origins cannot tell a lost connection from an answer without CORS \
             headers, for example to a login that has expired, so that what is cached is not used",
        )),
        Reach::Answers => Err(explained(
            error,
            "the server can be reached: it probably answered without CORS headers, so that the browser hides what it \
             said, for example that a login or a signature has expired (401, 403), and what is cached is not used",
        )),
    }
}

fn explained(mut error: Error, why: &str) -> Error {
    error.what = format!("{}; {why}", error.what);
    error.advise("Log in again or get a new URL, and have the server send CORS headers with its errors, too.")
}
