import assert from "node:assert/strict";
import { test } from "node:test";
import { byteStream } from "../../file/stream.js";
import { inMemory, weightStream } from "./shards.js";

const URL = "https://a.test/model.json";
const weight = (length) => ({ name: "w", shape: [length], dtype: "uint8" });

test("each weight has a buffer of its own, whatever files its bytes are in", async () => {
  const groups = [{ weights: [weight(3), weight(0), weight(4)], files: [file([1, 2]), file([3, 4, 5, 6, 7])] }];
  assert.deepEqual(await buffersOf(groups), [[1, 2, 3], [4, 5, 6, 7]]);
});

test("all weights are in one buffer in memory", async () => {
  const groups = [
    { weights: [weight(1)], files: [file([1])] },
    { weights: [weight(2)], files: [file([2]), file([]), file([3])] },
  ];
  assert.deepEqual([...new Uint8Array(await inMemory(groups, { url: URL }))], [1, 2, 3]);
});

test("strings keep their lengths", async () => {
  const strings = { name: "s", shape: [2], dtype: "string" };
  const bytes = [1, 0, 0, 0, 65, 2, 0, 0, 0, 66, 67];
  assert.deepEqual(await buffersOf([{ weights: [strings], files: [file(bytes)] }]), [bytes]);
});

test("files that are too short or too long are an error before the last weight", async () => {
  const short = [{ weights: [weight(2), weight(2)], files: [file([1, 2, 3])] }];
  await assert.rejects(buffersOf(short), { code: "FORMAT", message: /1 bytes before the end of a weight/ });
  const long = [{ weights: [weight(2)], files: [file([1, 2, 3])] }];
  await assert.rejects(buffersOf(long), { code: "FORMAT", message: /more bytes than their weights/ });
});

test("progress ends with 1", async () => {
  const fractions = [];
  const groups = [{ weights: [weight(4)], files: [file([1, 2]), file([3, 4])] }];
  await inMemory(groups, { url: URL, onProgress: (fraction) => fractions.push(fraction) });
  assert.deepEqual(fractions, [0.5, 1]);
});

test("three files are opened ahead, and all are closed when the load is cancelled", async () => {
  const files = Array.from({ length: 8 }, () => file([1], 2 ** 30));
  const reader = weightStream([{ weights: Array(8).fill(weight(1)), files }], { url: URL }).getReader();
  await reader.read();
  await reader.cancel();
  await new Promise((resolve) => setTimeout(resolve));
  const opened = files.filter(({ opens }) => opens === 1);
  assert.equal(opened.length, 5); // the first weight is returned once the second one is read
  assert.ok(opened.every(({ closes }) => closes === 1));
});

test("an error of a file is the error of the load", async () => {
  const failure = new Error("reset");
  const broken = { url: URL, open: async () => { throw failure; } };
  await assert.rejects(buffersOf([{ weights: [weight(1)], files: [broken] }]), failure);
});

async function buffersOf(groups) {
  const buffers = [];
  const reader = weightStream(groups, { url: URL }).getReader();
  for (let next; !(next = await reader.read()).done;) buffers.push([...new Uint8Array(next.value)]);
  return buffers;
}

/** A file with these bytes. From some length on, files are not read ahead. */
function file(values, byteLength = values.length) {
  const found = { url: `${URL}/${values}`, opens: 0, closes: 0 };
  found.open = async () => {
    found.opens++;
    return {
      byteLength,
      close: () => found.closes++,
      bytes: async () => new Uint8Array(values),
      stream: () => byteStream(async function* () {
        yield new Uint8Array(values);
      }),
    };
  };
  return found;
}
