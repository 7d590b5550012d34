//! The origin private file system (OPFS): a directory of logs. Synchronous access handles exist only in workers.

use super::storage::Storage;
use crate::browser::navigator::navigator;
use crate::browser::timer::pause;
use crate::error::{Error, ErrorKind, Result};
use js_sys::{ArrayBuffer, IteratorNext, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// The directory of all logs.
const DIRECTORY: &str = "weightstream";

/// How long to retry while a file is still open. When a page is closed, the browser releases the Web Locks of its
/// worker before it closes the file handles.
const MAX_RETRY_MS: u64 = 3_000;
const RETRY_INTERVAL_MS: u64 = 50;

/// The name of the exception of a storage that is full.
pub(super) const QUOTA_EXCEEDED_ERROR: &str = "QuotaExceededError";

/// Error message for a full cache.
pub(super) const QUOTA_EXCEEDED: &str = "the browser's storage quota is exceeded";

/// A file in the directory, and its length in bytes.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) byte_length: u64,
    file: Blob,
}

/// What opening a file does if it does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfMissing {
    Create,
    Skip,
}

/// A directory in OPFS.
#[derive(Debug)]
pub(super) struct Directory(DirectoryHandle);

impl Directory {
    /// Whether the worker has the required APIs. Opening the directory may fail nevertheless.
    pub(super) fn is_supported() -> bool {
        let handles = Reflect::get(&js_sys::global(), &"FileSystemFileHandle".into()).unwrap_or_default();
        let prototype = Reflect::get(&handles, &"prototype".into()).unwrap_or_default();
        Reflect::has(&prototype, &"createSyncAccessHandle".into()).unwrap_or(false) && navigator("locks").is_ok()
    }

    /// Opens the directory of all logs, and creates it if necessary.
    pub(super) async fn open() -> Result<Self> {
        let Directory(root) = Directory::root().await?;
        Ok(Directory(settled(root.get_directory_handle(DIRECTORY, &create()?)).await?.unchecked_into()))
    }

    /// Opens the root directory.
    pub(super) async fn root() -> Result<Self> {
        let storage: StorageManager = navigator("storage").map_err(storage_error)?.unchecked_into();
        Ok(Directory(settled(storage.get_directory()).await?.unchecked_into()))
    }

    /// Opens a file with exclusive access. `None` if it does not exist and is not created.
    pub(super) async fn file(&self, name: &str, if_missing: IfMissing) -> Result<Option<SyncFile>> {
        let options = if if_missing == IfMissing::Create { create()? } else { Object::new() };
        let file = JsFuture::from(self.0.get_file_handle(name, &options).map_err(storage_error)?).await;
        let file: FileHandle = match file {
            Ok(file) => file.unchecked_into(),
            Err(cause) if if_missing == IfMissing::Skip && has_name(&cause, "NotFoundError") => return Ok(None),
            Err(cause) => return Err(storage_error(cause)),
        };
        let handle = retry_while_open(|| file.create_sync_access_handle()).await.map_err(storage_error)?;
        let handle: SyncAccessHandle = handle.unchecked_into();
        Ok(Some(SyncFile { handle, position: Object::new() }))
    }

    /// Deletes a file that is not open. Succeeds if it does not exist.
    pub(super) async fn remove(&self, name: &str) -> Result<()> {
        match retry_while_open(|| self.0.remove_entry(name)).await {
            Err(cause) if !has_name(&cause, "NotFoundError") => Err(storage_error(cause)),
            _ => Ok(()),
        }
    }

    /// Lists all files, including those that another tab has open.
    pub(super) async fn entries(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let handles = self.0.values().map_err(storage_error)?;
        loop {
            let next: IteratorNext = settled(handles.next()).await?.unchecked_into();
            if next.done() {
                return Ok(entries);
            }
            let handle: FileHandle = next.value().unchecked_into();
            // Another tab may have deleted it.
            if let Ok(file) = settled(handle.get_file()).await {
                let file: Blob = file.unchecked_into();
                entries.push(Entry { name: handle.name(), byte_length: file.size() as u64, file });
            }
        }
    }
}

impl Entry {
    /// Reads the first bytes, at most `count`.
    pub(super) async fn first_bytes(&self, count: u64) -> Result<Vec<u8>> {
        let bytes = settled(self.file.slice(0.0, count as f64).array_buffer()).await?;
        Ok(Uint8Array::new(bytes.unchecked_ref::<ArrayBuffer>()).to_vec())
    }
}

/// The remaining storage quota in bytes. The browser's usage may lag behind, so it counts as at least `cached_bytes`.
pub(super) async fn available_bytes(cached_bytes: u64) -> Result<u64> {
    let Ok(storage) = navigator("storage") else { return Ok(u64::MAX) };
    let estimate = settled(storage.unchecked_into::<StorageManager>().estimate()).await.unwrap_or_default();
    let number = |name: &str| Reflect::get(&estimate, &name.into()).ok().and_then(|value| value.as_f64());
    match (number("quota"), number("usage")) {
        (Some(quota), Some(usage)) => Ok((quota - usage.max(cached_bytes as f64)).max(0.0) as u64),
        _ => Ok(u64::MAX), // no estimate: a write reports a full disk
    }
}

/// A file that is open with exclusive access until this value is dropped.
#[derive(Debug)]
pub(super) struct SyncFile {
    handle: SyncAccessHandle,
    position: Object,
}

impl SyncFile {
    fn at(&self, at: u64) -> Result<&Object> {
        Reflect::set(&self.position, &"at".into(), &(at as f64).into()).map_err(storage_error)?;
        Ok(&self.position)
    }
}

impl Storage for SyncFile {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<usize> {
        self.handle.read(into, self.at(at)?).map(|count| count as usize).map_err(storage_error)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let written = self.handle.write(bytes, self.at(at)?).map_err(storage_error)?;
        if written as usize == bytes.len() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Limit, QUOTA_EXCEEDED))
    }

    fn flush(&mut self) -> Result<()> {
        self.handle.flush().map_err(storage_error)
    }

    fn byte_length(&mut self) -> Result<u64> {
        self.handle.get_size().map(|size| size as u64).map_err(storage_error)
    }

    fn truncate(&mut self, byte_length: u64) -> Result<()> {
        self.handle.truncate(byte_length as f64).map_err(storage_error)
    }
}

impl Drop for SyncFile {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// Retries an operation that fails because the file is open.
async fn retry_while_open(attempt: impl Fn() -> Result<Promise, JsValue>) -> Result<JsValue, JsValue> {
    let mut waited_ms = 0;
    loop {
        match JsFuture::from(attempt()?).await {
            Err(cause) if waited_ms < MAX_RETRY_MS && has_name(&cause, "NoModificationAllowedError") => {
                pause(RETRY_INTERVAL_MS).await;
                waited_ms += RETRY_INTERVAL_MS;
            }
            outcome => return outcome,
        }
    }
}

async fn settled(promise: Result<Promise, JsValue>) -> Result<JsValue> {
    JsFuture::from(promise.map_err(storage_error)?).await.map_err(storage_error)
}

/// Converts an exception of the browser's storage to an error.
pub(super) fn storage_error(cause: JsValue) -> Error {
    let text = |name: &str| Reflect::get(&cause, &name.into()).ok().and_then(|value| value.as_string());
    let name = text("name").unwrap_or_default();
    if name == QUOTA_EXCEEDED_ERROR {
        return Error::new(ErrorKind::Limit, QUOTA_EXCEEDED);
    }
    Error::new(ErrorKind::Io, format!("the browser's storage failed ({name}: {})", text("message").unwrap_or_default()))
}

pub(super) fn has_name(cause: &JsValue, name: &str) -> bool {
    Reflect::get(cause, &"name".into()).is_ok_and(|value| value == name)
}

fn create() -> Result<Object> {
    let options = Object::new();
    Reflect::set(&options, &"create".into(), &JsValue::TRUE).map_err(storage_error)?;
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
