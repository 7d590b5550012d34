//! IndexedDB, for browsers without OPFS or without OPFS in private windows.

use super::chunked_kv::KvStore;
use super::opfs::storage_error;
use crate::error::{Error, ErrorKind, Result};
use js_sys::{Array, Function, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

const NAME: &str = "weightstream";

/// The one object store of the database.
const STORE: &str = "kept";

/// The database. Each method uses its own transaction, which is atomic.
#[derive(Debug)]
pub(super) struct Database(IdbDatabase);

impl Database {
    /// Opens the database, and creates it if necessary.
    pub(super) async fn open() -> Result<Self> {
        let factory = Reflect::get(&js_sys::global(), &"indexedDB".into()).unwrap_or_default();
        if !factory.is_object() {
            return Err(Error::new(ErrorKind::Unsupported, "the browser has no storage for cached files"));
        }
        let request = factory.unchecked_into::<IdbFactory>().open(NAME, 1).map_err(storage_error)?;
        let opening = request.clone();
        let on_upgrade = Closure::once_into_js(move |_: JsValue| {
            if let Ok(database) = opening.result() {
                // An exception here aborts `open`.
                database.unchecked_into::<IdbDatabase>().create_object_store(STORE).ok();
            }
        });
        request.set_onupgradeneeded(&on_upgrade);
        Ok(Database(done(&request).await?.unchecked_into()))
    }

    /// Whether the database exists. `false` if the browser cannot list databases.
    pub(super) async fn exists() -> bool {
        let factory = Reflect::get(&js_sys::global(), &"indexedDB".into()).unwrap_or_default();
        let databases = Reflect::get(&factory, &"databases".into()).and_then(|method| method.dyn_into::<Function>());
        let listed =
            databases.and_then(|method| method.call0(&factory)).and_then(|listed| listed.dyn_into::<Promise>());
        let Ok(listed) = listed else { return false };
        let listed = JsFuture::from(listed).await.unwrap_or_default();
        let is_ours = |database: JsValue| Reflect::get(&database, &"name".into()).is_ok_and(|name| name == NAME);
        Array::is_array(&listed) && listed.unchecked_into::<Array>().iter().any(is_ours)
    }

    fn transaction(&self, mode: &str) -> Result<(IdbTransaction, ObjectStore)> {
        let transaction = self.0.transaction(STORE, mode).map_err(storage_error)?;
        let store = transaction.object_store(STORE).map_err(storage_error)?;
        Ok((transaction, store))
    }
}

impl KvStore for Database {
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let (_, store) = self.transaction("readonly")?;
        let value = done(&store.get(key).map_err(storage_error)?).await?;
        Ok(value.dyn_ref::<Uint8Array>().map(Uint8Array::to_vec))
    }

    async fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        let (transaction, store) = self.transaction("readwrite")?;
        store.put(&Uint8Array::from(value), key).map_err(storage_error)?;
        committed(&transaction).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<()> {
        let (transaction, store) = self.transaction("readwrite")?;
        for key in &keys {
            store.delete(key).map_err(storage_error)?;
        }
        committed(&transaction).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let (_, store) = self.transaction("readonly")?;
        let range = KeyRange::bound(prefix, &format!("{prefix}\u{ffff}")).map_err(storage_error)?;
        let keys: Array = done(&store.get_all_keys(&range).map_err(storage_error)?).await?.unchecked_into();
        Ok(keys.iter().filter_map(|key| key.as_string()).collect())
    }
}

async fn done(request: &IdbRequest) -> Result<JsValue> {
    let done = Promise::new(&mut |resolve, reject| {
        request.set_onsuccess(&resolve);
        request.set_onerror(&reject);
    });
    match JsFuture::from(done).await {
        Ok(_) => request.result().map_err(storage_error),
        Err(_) => Err(storage_error(request.error().unwrap_or_default())),
    }
}

async fn committed(transaction: &IdbTransaction) -> Result<()> {
    let done = Promise::new(&mut |resolve, reject| {
        transaction.set_oncomplete(&resolve);
        transaction.set_onabort(&reject); // for example if the quota is exceeded
    });
    match JsFuture::from(done).await {
        Ok(_) => Ok(()),
        Err(_) => Err(storage_error(transaction.error())),
    }
}

#[wasm_bindgen]
extern "C" {
    type IdbFactory;
    #[wasm_bindgen(method, catch)]
    fn open(this: &IdbFactory, name: &str, version: u32) -> Result<IdbRequest, JsValue>;

    #[derive(Debug, Clone)]
    type IdbRequest;
    #[wasm_bindgen(method, getter, catch)]
    fn result(this: &IdbRequest) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, getter, catch)]
    fn error(this: &IdbRequest) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, setter, js_name = onsuccess)]
    fn set_onsuccess(this: &IdbRequest, listener: &JsValue);
    #[wasm_bindgen(method, setter, js_name = onerror)]
    fn set_onerror(this: &IdbRequest, listener: &JsValue);
    #[wasm_bindgen(method, setter, js_name = onupgradeneeded)]
    fn set_onupgradeneeded(this: &IdbRequest, listener: &JsValue);

    #[derive(Debug)]
    type IdbDatabase;
    #[wasm_bindgen(method, catch, js_name = createObjectStore)]
    fn create_object_store(this: &IdbDatabase, name: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn transaction(this: &IdbDatabase, store: &str, mode: &str) -> Result<IdbTransaction, JsValue>;

    type IdbTransaction;
    #[wasm_bindgen(method, catch, js_name = objectStore)]
    fn object_store(this: &IdbTransaction, name: &str) -> Result<ObjectStore, JsValue>;
    #[wasm_bindgen(method, getter)]
    fn error(this: &IdbTransaction) -> JsValue;
    #[wasm_bindgen(method, setter, js_name = oncomplete)]
    fn set_oncomplete(this: &IdbTransaction, listener: &JsValue);
    #[wasm_bindgen(method, setter, js_name = onabort)]
    fn set_onabort(this: &IdbTransaction, listener: &JsValue);

    type ObjectStore;
    #[wasm_bindgen(method, catch)]
    fn get(this: &ObjectStore, key: &str) -> Result<IdbRequest, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn put(this: &ObjectStore, value: &JsValue, key: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn delete(this: &ObjectStore, key: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch, js_name = getAllKeys)]
    fn get_all_keys(this: &ObjectStore, range: &KeyRange) -> Result<IdbRequest, JsValue>;

    #[wasm_bindgen(js_name = IDBKeyRange)]
    type KeyRange;
    #[wasm_bindgen(static_method_of = KeyRange, js_class = IDBKeyRange, catch)]
    fn bound(lower: &str, upper: &str) -> Result<KeyRange, JsValue>;
}
