//! Files on a hub: where they are, and the signed URLs that the hub redirects to. The code is deferred in the npm
//! package.

use super::{FetchSource, Header, head_of, header};
use crate::browser::host::BrowserHost;
use crate::error::Result;
use crate::host::Host;
use crate::hub::{self, Address, HubFile, Redirect, Reply};
use crate::source::js_buffer::JsBuffer;
use crate::source::stream::StreamBody;
use crate::source::{Body, Buffer};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use js_sys::Date;
use web_sys::{AbortController, Response};

/// Pins the revision of a file on a hub.
///
/// # Errors
/// Those of [`locate`](hub::locate); `INVALID_ARGUMENT` for a malformed address.
#[inline(never)]
pub(super) fn located(source: FetchSource) -> LocalBoxFuture<'static, Result<FetchSource>> {
    async move {
        let Some(address) = Address::parse(&source.url, &source.client.hub.endpoint)? else { return Ok(source) };
        Ok(match hub::locate(&address, &Transport(&source)).await? {
            Some(located) => {
                let hub_file = HubFile::new(&located.repository, &located.url);
                FetchSource { hub_file, url: located.url, ..source }
            }
            None => FetchSource { url: address.unpinned(), ..source },
        })
    }
    .boxed_local()
}

/// Requests the URL that the hub redirected to before, while it is valid, and otherwise asks the hub.
#[inline(never)]
pub(super) fn request<'a>(
    source: &'a FetchSource,
    file: &'a HubFile,
    header: Option<Header<'a>>,
) -> LocalBoxFuture<'a, Result<(Response, AbortController)>> {
    async move {
        let HubFile { redirect, .. } = file;
        if let Some(answer) = request_target(source, redirect, header.clone()).await {
            return Ok(answer);
        }
        let _asking = redirect.asking.lock().await;
        // Another connection may have asked.
        if let Some(answer) = request_target(source, redirect, header.clone()).await {
            return Ok(answer);
        }
        let (response, controller) = source.send(&source.url, header).await?;
        if response.ok() {
            redirect.record(&source.url, response.url(), Date::now() as u64);
        }
        Ok((response, controller))
    }
    .boxed_local()
}

/// Requests the URL that the hub redirected to. `None` if there is none, or if it does not work any more.
async fn request_target(
    source: &FetchSource,
    redirect: &Redirect,
    header: Option<Header<'_>>,
) -> Option<(Response, AbortController)> {
    let target = redirect.target(Date::now() as u64)?;
    // A browser also hides the response to an expired signature if it has no CORS headers.
    if let Ok((response, controller)) = source.send(&target, header).await {
        if response.ok() || response.status() == 416 {
            return Some((response, controller));
        }
        controller.abort();
    }
    redirect.forget();
    None
}

/// Sends requests to the hub with the settings of a source.
struct Transport<'a>(&'a FetchSource);

impl hub::Transport for Transport<'_> {
    async fn get(&self, url: &str, accept: &str) -> Result<Reply> {
        let (response, controller) = self.0.send(url, Some(("Accept", accept.to_owned()))).await?;
        let head = head_of(&response);
        let mut reply = Reply::new(head.status, head.retry_after_ms, |name| header(&response, name));
        if !reply.is_text() {
            controller.abort(); // it may be the whole file
            return Ok(reply);
        }
        let mut body = StreamBody::new(response.body(), None, Some(controller))?;
        let mut buffer = JsBuffer::allocate(hub::PIECE_BYTES)?;
        loop {
            let count = body.read(&mut buffer, 0..hub::PIECE_BYTES).await?;
            if count == 0 || !reply.can_take(count) {
                return Ok(reply);
            }
            buffer.inspect(0..count, &mut |bytes| {
                reply.body.extend_from_slice(bytes);
                Ok(())
            })?;
        }
    }

    fn host(&self) -> &dyn Host {
        &BrowserHost
    }
}
