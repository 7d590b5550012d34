import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { setParts } from "../module/location.js";
import { fitOf } from "./space.js";

afterEach(() => setParts({}));

const tensor = (byteLength, stored) => ({ byteLength, components: [{ storedByteLength: stored }] });

test("a model fits if its missing bytes fit into the storage and its tensors into the memory", async () => {
  setParts({ space: async () => ({ storage: 60, memory: 200 }) });
  const tensors = [tensor(120, 40), tensor(80, 40)];
  assert.deepEqual(await fitOf(tensors, true, "auto", 30), {
    byteLength: 80,
    storage: { needed: 50, available: 60, fits: true },
    memory: { needed: 200, largest: 120, limit: 200, fits: true },
    persisted: undefined,
  });
  assert.equal((await fitOf(tensors, true, "auto", 0)).storage.fits, false);
  assert.deepEqual((await fitOf(tensors, false, "none", 0)).storage, { needed: 0, available: 60, fits: true });
});

test("what the platform does not say is unknown", async () => {
  setParts({ space: async () => ({}) });
  const { storage, memory } = await fitOf([tensor(8, 8), tensor(undefined, 8)], true, "auto", 0);
  assert.equal(storage.fits, undefined);
  assert.deepEqual(memory, { needed: undefined, largest: undefined, limit: undefined, fits: undefined });
});

test("a memory that may be larger than its limit does not refuse a model", async () => {
  setParts({ space: async () => ({ memory: 8, isMemoryCapped: true }) });
  assert.equal((await fitOf([tensor(16, 16)], false, "none", 0)).memory.fits, undefined);
});

test("a tensor that is longer than any buffer fits into no memory", async () => {
  setParts({ space: async () => ({ memory: 2 ** 40 }) });
  assert.equal((await fitOf([tensor(2 ** 33, 8)], false, "none", 0)).memory.fits, false);
});
