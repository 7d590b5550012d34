// @ts-check
// The folders that the user has chosen, in IndexedDB: a handle is a structured clone.
import { fail } from "../loader/error.js";
import { messageOf } from "../module/guard.js";

const DATABASE = "weightstream folders";
const STORE = "folders";

/**
 * @param {string} name
 * @param {FileSystemDirectoryHandle} folder
 */
export const put = (name, folder) => inStore("readwrite", (store) => store.put(folder, name));

/** @param {string} name */
export const get = (name) => inStore("readonly", (store) => store.get(name));

/** @param {string} name */
export const remove = (name) => inStore("readwrite", (store) => store.delete(name));

/**
 * @template T
 * @param {IDBTransactionMode} mode
 * @param {(store: IDBObjectStore) => IDBRequest<T>} request
 * @returns {Promise<T>}
 */
async function inStore(mode, request) {
  try {
    const database = await opened();
    try {
      const transaction = database.transaction(STORE, mode);
      const made = request(transaction.objectStore(STORE));
      await new Promise((resolve, reject) => {
        transaction.oncomplete = resolve;
        transaction.onerror = transaction.onabort = () => reject(transaction.error ?? made.error);
      });
      return made.result;
    } finally {
      database.close();
    }
  } catch (cause) {
    throw fail({ code: "IO", message: `Folders cannot be remembered here: ${messageOf(cause)}.`, cause });
  }
}

/** @returns {Promise<IDBDatabase>} */
function opened() {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => void opening.result.createObjectStore(STORE);
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}
