// @ts-check
// The orders in which runtimes ask for tensors. They are kept with the Cache API.

/** The name of the cache. */
export const ORDERS = "weightstream-orders";

/** Deletes all of them. */
export async function deleteOrders() {
  try {
    await caches.delete(ORDERS);
  } catch {
    // This platform or document has no Cache API, so none are kept.
  }
}
