//! The functions of `cache/cross_origin_storage.js`, which asks Cross-Origin Storage, and counts for the statistics.

use js_sys::{Array, Function, Promise, Reflect, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::Blob;

/// Cross-Origin Storage, as one loader uses it. Its functions never reject, and report their failures themselves.
#[derive(Debug, Clone)]
pub(super) struct Storage {
    call: Function,
    /// Whether files that are not in it are stored.
    pub(super) is_written: bool,
}

impl Storage {
    /// The storage that an object of `cache/cross_origin_storage.js` represents; `None` if it cannot be used.
    pub(super) fn new(object: &JsValue) -> Option<Self> {
        let field = |name: &str| Reflect::get(object, &name.into()).unwrap_or_default();
        let call = field("call").dyn_into().ok()?;
        Some(Storage { call, is_written: field("isWritten").is_truthy() })
    }

    /// The file with this SHA-256; `None` if the storage does not disclose one.
    pub(super) async fn find(&self, sha256: &str) -> Option<Blob> {
        let file = self.ask("find", &[sha256.into()]).await;
        file.is_object().then(|| file.unchecked_into())
    }

    /// Reports that the file that was found is used: its bytes have the right digest.
    pub(super) fn accept(&self) {
        self.send("accept", &[]);
    }

    /// Reports that no file can be looked up, because its SHA-256 is not known.
    pub(super) fn count_unknown(&self) {
        self.send("countUnknown", &[]);
    }

    /// Reports why a file is not read from the storage, or not stored.
    pub(super) fn note(&self, reason: &str) {
        self.send("note", &[reason.into()]);
    }

    /// Begins to store a file, once it is its turn. Returns false if it is not stored.
    pub(super) async fn begin(&self, sha256: &str) -> bool {
        self.ask("begin", &[sha256.into()]).await.is_truthy()
    }

    /// Stores the next bytes of a file. Returns false if that failed.
    pub(super) async fn write(&self, sha256: &str, bytes: Uint8Array) -> bool {
        self.ask("write", &[sha256.into(), bytes.into()]).await.is_truthy()
    }

    /// Stores the file, if its bytes are complete, or forgets all of them.
    pub(super) async fn end(&self, sha256: &str, is_complete: bool) {
        self.ask("end", &[sha256.into(), is_complete.into()]).await;
    }

    fn send(&self, method: &str, arguments: &[JsValue]) -> JsValue {
        let all: Array = std::iter::once(method.into()).chain(arguments.iter().cloned()).collect();
        self.call.apply(&JsValue::UNDEFINED, &all).unwrap_or_default() // it does not throw
    }

    async fn ask(&self, method: &str, arguments: &[JsValue]) -> JsValue {
        let promise: Promise = self.send(method, arguments).unchecked_into();
        JsFuture::from(promise).await.unwrap_or_default() // it is never rejected
    }
}
