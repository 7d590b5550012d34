//! Takes over a file whose first bytes were read before its cache was open.

use super::CachedSource;
use super::body::CachedBody;
use super::lease::Lease;
use super::writer::CacheWriter;
use crate::browser::lock::Lock;
use crate::browser::timer::pause;
use crate::digest::Digest;
use crate::source::RangeResponse;
use crate::source::js_buffer::JsBuffer;
use crate::source::stream::StreamBody;
use futures::future::{self, Either, FutureExt};
use js_sys::{Function, Uint8Array};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;

/// How long this page has the lease of the file while the bodies that are being read go on, before it may pass to
/// another page.
const RESUME_MS: u64 = 500;

/// How long to wait for a lock that this page has just released.
const LOCK_WAIT_MS: u64 = 1_000;

/// What happened before the cache was open.
#[derive(Debug)]
pub(crate) enum Event {
    /// Bytes at an offset of the file arrived in a response.
    Received { response: Rc<RangeResponse<()>>, start: u64, bytes: Uint8Array },
    /// The bytes of a range have this strong digest.
    Confirmed { range: Range<u64>, digest: Digest },
    /// The bytes so far have a wrong digest or violate their format.
    Rejected,
}

impl CachedSource {
    /// Caches what was read before, until `next` returns nothing more. `release` releases the lock of the download.
    pub(crate) async fn take_over(&self, release: Option<Function>, next: &mut dyn FnMut() -> Option<Event>) {
        let lease = match release {
            Some(release) => self.lease_after(&release).await,
            None => None,
        };
        // Each response has a writer, so that those of several connections fill whole pieces.
        let mut writers: Vec<(Rc<RangeResponse<()>>, CacheWriter)> = Vec::new();
        while let Some(event) = next() {
            match event {
                Event::Received { response, start, bytes } => {
                    if !writers.iter().any(|(of, _)| Rc::ptr_eq(of, &response)) {
                        let writer = self.writer_of(&response).await;
                        writers.push((Rc::clone(&response), writer));
                    }
                    for (_, writer) in writers.iter_mut().filter(|(of, _)| Rc::ptr_eq(of, &response)) {
                        writer.push(start, &bytes).await;
                    }
                }
                Event::Confirmed { range, digest } => {
                    writers.clear(); // which writes their last pieces
                    self.confirm(range, &digest);
                }
                Event::Rejected => self.reject(),
            }
        }
        spawn_local(async move {
            pause(RESUME_MS).await;
            drop(lease);
        });
    }

    /// The lease of the file, after JavaScript has released its lock of the download. That lock may have another name,
    /// and ends after some time.
    async fn lease_after(&self, release: &Function) -> Option<Rc<Lease>> {
        release.call0(&JsValue::UNDEFINED).ok()?; // it does not throw
        let name = self.file.lock_name();
        match future::select(pin!(Lock::wait(&name)), pause(LOCK_WAIT_MS).boxed_local()).await {
            Either::Left((lock, _)) => lock.ok().map(|lock| self.file.hold(lock)),
            Either::Right(_) => None, // another page was faster
        }
    }

    async fn writer_of(&self, response: &RangeResponse<()>) -> CacheWriter {
        *self.file.is_open.lock().await = true; // it is not looked up: nothing was cached
        let version = self.file.version_of(response);
        self.file.contents.set_version(version.as_ref());
        let mut writer = CacheWriter::new(Rc::clone(&self.file));
        (writer.version, writer.lease) = (version, self.file.try_lease().await.unwrap_or_default());
        writer
    }

    /// The body of a response to a request for `range`, which goes on at `position`. The last `count` bytes before it
    /// are in `into`, at the offset `at`, and are not cached yet.
    pub(crate) async fn resumed(
        &self,
        range: &Range<u64>,
        response: &RangeResponse<()>,
        stream: StreamBody,
        position: u64,
        (into, at, count): (&JsBuffer, u64, u64),
    ) -> CachedBody {
        let writer = self.writer_of(response).await;
        let mut body = CachedBody::resume(Rc::clone(&self.file), range, response, stream, position - count, writer);
        body.keep(into, at, count).await;
        body
    }
}
