//! The origin private file system: a folder of logs, opened by synchronous handles as only workers may.

use super::storage::Storage;
use crate::browser::navigator::navigator;
use crate::browser::timer::pause;
use crate::error::{Error, ErrorKind, Result};
use js_sys::{ArrayBuffer, IteratorNext, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// The folder that all logs lie in.
const FOLDER: &str = "weightstream";

/// A worker whose page was closed loses its locks before its handles: for a moment a file that nobody has locked is
/// still open.
const HANDLE_LINGERS_MS: u64 = 3_000;
const RETRY_INTERVAL_MS: u64 = 50;

/// What is wrong when nothing more can be kept.
pub(super) const NO_ROOM: &str = "the browser grants no more room to keep files in";

/// A file in the folder and its length in bytes.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) byte_length: u64,
    file: Blob,
}

/// The folder of logs.
#[derive(Debug)]
pub(super) struct Folder(DirectoryHandle);

impl Folder {
    /// Whether this worker can have one, as far as that can be told beforehand.
    pub(super) fn can_be() -> bool {
        let handles = Reflect::get(&js_sys::global(), &"FileSystemFileHandle".into()).unwrap_or_default();
        let prototype = Reflect::get(&handles, &"prototype".into()).unwrap_or_default();
        Reflect::has(&prototype, &"createSyncAccessHandle".into()).unwrap_or(false) && navigator("locks").is_ok()
    }

    /// The folder, made if it is not there.
    pub(super) async fn open() -> Result<Self> {
        let Folder(root) = Folder::root().await?;
        Ok(Folder(settled(root.get_directory_handle(FOLDER, &create()?)).await?.unchecked_into()))
    }

    /// The folder that all others are in.
    pub(super) async fn root() -> Result<Self> {
        let storage: StorageManager = navigator("storage").map_err(failed)?.unchecked_into();
        Ok(Folder(settled(storage.get_directory()).await?.unchecked_into()))
    }

    /// Opens a file for this worker alone. `None` where there is none and none is to be made.
    pub(super) async fn file(&self, name: &str, make: bool) -> Result<Option<SyncFile>> {
        let options = if make { create()? } else { Object::new() };
        let file = JsFuture::from(self.0.get_file_handle(name, &options).map_err(failed)?).await;
        let file: FileHandle = match file {
            Ok(file) => file.unchecked_into(),
            Err(cause) if !make && is_named(&cause, "NotFoundError") => return Ok(None),
            Err(cause) => return Err(failed(cause)),
        };
        let handle = once_free(|| file.create_sync_access_handle()).await.map_err(failed)?;
        let handle: SyncAccessHandle = handle.unchecked_into();
        Ok(Some(SyncFile { handle, position: Object::new() }))
    }

    /// Deletes a file that nobody has open. It may be gone already.
    pub(super) async fn remove(&self, name: &str) -> Result<()> {
        match once_free(|| self.0.remove_entry(name)).await {
            Err(cause) if !is_named(&cause, "NotFoundError") => Err(failed(cause)),
            _ => Ok(()),
        }
    }

    /// All files, also those that another tab has open.
    pub(super) async fn entries(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let handles = self.0.values().map_err(failed)?;
        loop {
            let next: IteratorNext = settled(handles.next()).await?.unchecked_into();
            if next.done() {
                return Ok(entries);
            }
            let handle: FileHandle = next.value().unchecked_into();
            // It may be gone by now.
            if let Ok(file) = settled(handle.get_file()).await {
                let file: Blob = file.unchecked_into();
                entries.push(Entry { name: handle.name(), byte_length: file.size() as u64, file });
            }
        }
    }
}

impl Entry {
    /// The first bytes of it, at most `count`.
    pub(super) async fn first_bytes(&self, count: u64) -> Result<Vec<u8>> {
        let bytes = settled(self.file.slice(0.0, count as f64).array_buffer()).await?;
        Ok(Uint8Array::new(bytes.unchecked_ref::<ArrayBuffer>()).to_vec())
    }
}

/// How many bytes the browser would still let us keep, who keep so many. It may not have counted all of them yet.
pub(super) async fn room_bytes(kept_bytes: u64) -> Result<u64> {
    let Ok(storage) = navigator("storage") else { return Ok(u64::MAX) };
    let estimate = settled(storage.unchecked_into::<StorageManager>().estimate()).await.unwrap_or_default();
    let number = |name: &str| Reflect::get(&estimate, &name.into()).ok().and_then(|value| value.as_f64());
    match (number("quota"), number("usage")) {
        (Some(quota), Some(usage)) => Ok((quota - usage.max(kept_bytes as f64)).max(0.0) as u64),
        _ => Ok(u64::MAX), // it does not say: writing will tell
    }
}

/// A file that this worker alone has open, until this is dropped.
#[derive(Debug)]
pub(super) struct SyncFile {
    handle: SyncAccessHandle,
    position: Object,
}

impl SyncFile {
    fn at(&self, at: u64) -> Result<&Object> {
        Reflect::set(&self.position, &"at".into(), &(at as f64).into()).map_err(failed)?;
        Ok(&self.position)
    }
}

impl Storage for SyncFile {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<usize> {
        self.handle.read(into, self.at(at)?).map(|count| count as usize).map_err(failed)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let written = self.handle.write(bytes, self.at(at)?).map_err(failed)?;
        if written as usize == bytes.len() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Limit, NO_ROOM))
    }

    fn flush(&mut self) -> Result<()> {
        self.handle.flush().map_err(failed)
    }

    fn byte_length(&mut self) -> Result<u64> {
        self.handle.get_size().map(|size| size as u64).map_err(failed)
    }

    fn truncate(&mut self, byte_length: u64) -> Result<()> {
        self.handle.truncate(byte_length as f64).map_err(failed)
    }
}

impl Drop for SyncFile {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// Tries again what fails because somebody has the file open.
async fn once_free(attempt: impl Fn() -> Result<Promise, JsValue>) -> Result<JsValue, JsValue> {
    let mut waited_ms = 0;
    loop {
        match JsFuture::from(attempt()?).await {
            Err(cause) if waited_ms < HANDLE_LINGERS_MS && is_named(&cause, "NoModificationAllowedError") => {
                pause(RETRY_INTERVAL_MS).await;
                waited_ms += RETRY_INTERVAL_MS;
            }
            outcome => return outcome,
        }
    }
}

async fn settled(promise: Result<Promise, JsValue>) -> Result<JsValue> {
    JsFuture::from(promise.map_err(failed)?).await.map_err(failed)
}

/// What the browser says is wrong with its storage.
pub(super) fn failed(cause: JsValue) -> Error {
    let text = |name: &str| Reflect::get(&cause, &name.into()).ok().and_then(|value| value.as_string());
    let name = text("name").unwrap_or_default();
    if name == "QuotaExceededError" {
        return Error::new(ErrorKind::Limit, NO_ROOM);
    }
    Error::new(ErrorKind::Io, format!("the browser's storage failed ({name}: {})", text("message").unwrap_or_default()))
}

fn is_named(cause: &JsValue, name: &str) -> bool {
    Reflect::get(cause, &"name".into()).is_ok_and(|value| value == name)
}

fn create() -> Result<Object> {
    let options = Object::new();
    Reflect::set(&options, &"create".into(), &JsValue::TRUE).map_err(failed)?;
    Ok(options)
}

#[wasm_bindgen]
extern "C" {
    type StorageManager;
    #[wasm_bindgen(method, catch, js_name = getDirectory)]
    fn get_directory(this: &StorageManager) -> Result<Promise, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn estimate(this: &StorageManager) -> Result<Promise, JsValue>;

    #[derive(Debug)]
    type DirectoryHandle;
    #[wasm_bindgen(method, catch, js_name = getDirectoryHandle)]
    fn get_directory_handle(this: &DirectoryHandle, name: &str, options: &Object) -> Result<Promise, JsValue>;
    #[wasm_bindgen(method, catch, js_name = getFileHandle)]
    fn get_file_handle(this: &DirectoryHandle, name: &str, options: &Object) -> Result<Promise, JsValue>;
    #[wasm_bindgen(method, catch, js_name = removeEntry)]
    fn remove_entry(this: &DirectoryHandle, name: &str) -> Result<Promise, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn values(this: &DirectoryHandle) -> Result<Entries, JsValue>;

    type Entries;
    #[wasm_bindgen(method, catch, js_name = next)]
    fn next(this: &Entries) -> Result<Promise, JsValue>;

    type FileHandle;
    #[wasm_bindgen(method, getter)]
    fn name(this: &FileHandle) -> String;
    #[wasm_bindgen(method, catch, js_name = getFile)]
    fn get_file(this: &FileHandle) -> Result<Promise, JsValue>;
    #[wasm_bindgen(method, catch, js_name = createSyncAccessHandle)]
    fn create_sync_access_handle(this: &FileHandle) -> Result<Promise, JsValue>;

    #[derive(Debug)]
    type Blob;
    #[wasm_bindgen(method, getter)]
    fn size(this: &Blob) -> f64;
    #[wasm_bindgen(method)]
    fn slice(this: &Blob, start: f64, end: f64) -> Blob;
    #[wasm_bindgen(method, catch, js_name = arrayBuffer)]
    fn array_buffer(this: &Blob) -> Result<Promise, JsValue>;

    #[derive(Debug)]
    type SyncAccessHandle;
    #[wasm_bindgen(method, catch)]
    fn read(this: &SyncAccessHandle, into: &mut [u8], options: &Object) -> Result<f64, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn write(this: &SyncAccessHandle, bytes: &[u8], options: &Object) -> Result<f64, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn flush(this: &SyncAccessHandle) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch, js_name = getSize)]
    fn get_size(this: &SyncAccessHandle) -> Result<f64, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn truncate(this: &SyncAccessHandle, byte_length: f64) -> Result<(), JsValue>;
    #[wasm_bindgen(method)]
    fn close(this: &SyncAccessHandle);
}
