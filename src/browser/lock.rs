//! Web Locks, which synchronize the tabs and workers of an origin.

use futures::channel::oneshot;
use futures::future::{self, Either};
use js_sys::{Function, Object, Promise, Reflect};
use std::cell::RefCell;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// What a request does while somebody else holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfHeld {
    Wait,
    GiveUp,
}

/// A lock that is held until this value is dropped or its tab is closed.
#[derive(Debug)]
pub(crate) struct Lock {
    release: Function,
}

impl Lock {
    /// Waits for the lock of this name.
    ///
    /// # Errors
    /// If the browser does not support Web Locks or rejects the request.
    pub(crate) async fn wait(name: &str) -> Result<Lock, JsValue> {
        request(name, IfHeld::Wait).await?.ok_or(JsValue::UNDEFINED)
    }

    /// Acquires the lock if it is available.
    ///
    /// # Errors
    /// Those of [`Lock::wait`].
    pub(crate) async fn try_now(name: &str) -> Result<Option<Lock>, JsValue> {
        request(name, IfHeld::GiveUp).await
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.release.call0(&JsValue::UNDEFINED).ok(); // resolving a promise does not throw
    }
}

async fn request(name: &str, if_held: IfHeld) -> Result<Option<Lock>, JsValue> {
    let (sender, granted) = oneshot::channel();
    // The lock is held until the promise that the callback returns is resolved. If the waiting future was dropped,
    // `send` returns the lock, and dropping it releases it.
    let callback = Closure::once_into_js(move |lock: JsValue| -> JsValue {
        if lock.is_null() {
            sender.send(None).ok();
            return JsValue::UNDEFINED;
        }
        let release = RefCell::new(None);
        let held = Promise::new(&mut |resolve, _| *release.borrow_mut() = Some(resolve));
        sender.send(release.take().map(|release| Lock { release })).ok();
        held.into()
    });
    let options = Object::new();
    Reflect::set(&options, &"ifAvailable".into(), &(if_held == IfHeld::GiveUp).into())?;
    let locks: LockManager = super::navigator::navigator("locks")?.unchecked_into();
    let ended = JsFuture::from(locks.request(name, &options, &callback)?);
    match future::select(granted, ended).await {
        Either::Left((lock, _)) => lock.map_err(|_| JsValue::UNDEFINED),
        // If the lock is not available, the request may end before `granted` is polled.
        Either::Right((Ok(_), granted)) => granted.await.map_err(|_| JsValue::UNDEFINED),
        Either::Right((Err(refused), _)) => Err(refused),
    }
}

#[wasm_bindgen]
extern "C" {
    type LockManager;
    #[wasm_bindgen(method, catch)]
    fn request(this: &LockManager, name: &str, options: &JsValue, callback: &JsValue) -> Result<Promise, JsValue>;
}
