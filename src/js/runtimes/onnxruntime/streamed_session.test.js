import assert from "node:assert/strict";
import { test } from "node:test";
import { StreamedSession } from "./streamed_session.js";

const PARTS = {
  inputs: ["x"],
  outputs: ["y", "h"],
  parts: [
    { inputs: ["x"], outputs: ["h", "mask"] },
    { inputs: ["h", "mask"], outputs: ["z"] },
    { inputs: ["z", "h"], outputs: ["y"] },
  ],
};

// A runtime that notes what it does. `gates` are promises that the sessions of parts wait for.
function runtime({ gates = [], fails = () => undefined } = {}) {
  const events = [];
  let running = 0;
  const exclusive = async (event, work) => {
    assert.equal(running++, 0, "ONNX Runtime does one thing at a time");
    await new Promise((resolve) => setImmediate(resolve));
    running--;
    events.push(event);
    const error = fails(event);
    if (error) throw error;
    return work();
  };
  const create = async (part) => {
    const number = PARTS.parts.indexOf(part);
    await gates[number];
    const run = async (feeds) => exclusive(`run ${number}`, () => {
      assert.deepEqual(Object.keys(feeds), part.inputs);
      assert.ok(Object.values(feeds).every((tensor) => !tensor.isDisposed), "a tensor was disposed too early");
      return Object.fromEntries(part.outputs.map((name) => [name, tensor(name)]));
    });
    const release = async () => void events.push(`release ${number}`);
    return exclusive(`create ${number}`, () => ({ run, release }));
  };
  return { create, events };
}

const disposed = [];
const tensor = (name) => ({
  name,
  isDisposed: false,
  dispose() {
    this.isDisposed = true;
    disposed.push(name);
  },
});

test("a call computes with each part before the next one is created", async () => {
  const { create, events } = runtime();
  let closed = 0;
  const session = new StreamedSession(PARTS, create, { close: () => closed++ });
  const { y, h } = await session.run({ x: tensor("x") });
  assert.deepEqual(events, ["create 0", "run 0", "create 1", "run 1", "create 2", "run 2"]);
  assert.deepEqual([y.isDisposed, h.isDisposed, closed], [false, false, 1]);
  assert.deepEqual(disposed.splice(0), ["mask", "z"]);
  await session.loaded;
  await session.release();
  assert.deepEqual(events.slice(6), ["release 0", "release 1", "release 2"]);
});

test("a call that comes later, and a second one, pass through what is there", async () => {
  const { create, events } = runtime();
  const session = new StreamedSession(PARTS, create, { close() {} });
  await session.loaded;
  const order = [];
  await Promise.all([0, 1].map((at) => session.run({ x: tensor("x") }).then(() => order.push(at))));
  assert.deepEqual(order, [0, 1]);
  assert.equal(events.filter((event) => event.startsWith("run")).length, 6);
});

test("what a call has computed is freed if it fails, or the session is released", async () => {
  disposed.length = 0;
  const failing = runtime({ fails: (event) => (event === "run 2" ? new Error("too long") : undefined) });
  const session = new StreamedSession(PARTS, failing.create, { close() {} });
  await assert.rejects(session.run({ x: tensor("x") }), /too long/);
  assert.deepEqual(disposed.splice(0).sort(), ["h", "mask", "z"]);
  const running = session.run({ x: tensor("x") });
  const released = session.release();
  await assert.rejects(running, { code: "CLOSED" });
  await released;
  assert.deepEqual(disposed.splice(0).sort(), ["h", "mask"], "those of the part that was computing");
});

test("an output that is an input is passed on, and needed", async () => {
  const parts = { ...PARTS, outputs: [...PARTS.outputs, "x"] };
  const create = runtime().create;
  const session = new StreamedSession(parts, create, { close() {} });
  const x = tensor("x");
  assert.equal((await session.run({ x })).x, x);
  disposed.splice(0);
  await session.release();
});

test("an error of a call does not concern the others", async () => {
  let count = 0;
  const fails = (event) => (event === "run 1" && count++ === 0 ? new Error("too long") : undefined);
  const { create } = runtime({ fails });
  const session = new StreamedSession(PARTS, create, { close() {} });
  const calls = await Promise.allSettled([session.run({ x: tensor("x") }), session.run({ x: tensor("x") })]);
  assert.deepEqual(calls.map(({ status }) => status), ["rejected", "fulfilled"]);
});

test("a part that cannot be created ends everything, and frees the others", async () => {
  const error = new Error("no weights");
  const { create, events } = runtime({ fails: (event) => (event === "create 1" ? error : undefined) });
  let closed = 0;
  const session = new StreamedSession(PARTS, create, { close: () => closed++ });
  await assert.rejects(session.run({ x: tensor("x") }), error);
  await assert.rejects(session.loaded, error);
  await assert.rejects(session.run({ x: tensor("x") }), error);
  assert.equal(closed, 1);
  await session.release();
  assert.deepEqual(events.filter((event) => event.startsWith("release")), ["release 0"]);
});

test("an abort, and a release in the middle, settle all promises", async () => {
  for (const isAborted of [true, false]) {
    let open = () => {};
    const gate = new Promise((resolve) => (open = resolve));
    const { create, events } = runtime({ gates: [undefined, gate] });
    const controller = new AbortController();
    const session = new StreamedSession(PARTS, create, { close: () => open(), signal: controller.signal });
    const call = session.run({ x: tensor("x") });
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    if (isAborted) controller.abort(new Error("not needed"));
    const released = session.release();
    await assert.rejects(call, isAborted ? /not needed/ : { code: "CLOSED" });
    await released;
    assert.equal(events.filter((event) => event.startsWith("release")).length, 2);
  }
});

test("a release does not wait for what the next session waits for", async () => {
  const create = (_, stop) => new Promise((_, reject) => stop.addEventListener("abort", () => reject(stop.reason)));
  const session = new StreamedSession(PARTS, create, { close() {} });
  const call = session.run({ x: tensor("x") });
  await session.release();
  await assert.rejects(call, { code: "CLOSED" });
});

test("refuses inputs that the graph does not have, and missing ones", async () => {
  const session = new StreamedSession(PARTS, runtime().create, { close() {} });
  await assert.rejects(session.run({}), { code: "INVALID_ARGUMENT" });
  await assert.rejects(session.run({ x: tensor("x"), w: tensor("w") }), { code: "INVALID_ARGUMENT" });
});
