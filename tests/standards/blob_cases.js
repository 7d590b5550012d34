// What a Blob promises, after the topics of the web-platform-tests FileAPI/blob. Each case is run with a real Blob and
// with a lazy one of the same bytes and type, and must give the same result.

import { content } from "./server.js";
import { rejection } from "./fetch_cases.js";

const TYPE = "Text/Plain; Charset=UTF-8";
const size = content.length;

/** What can be seen of a Blob. */
async function shown(blob) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  return [blob.size, blob.type, bytes.length, bytes[0], bytes.at(-1)];
}

/** Arguments of `slice`. The Blob of Node.js 20 takes only integers: others have cases of their own. */
const indices = [
  undefined, null, 0, -0, 1, 5, -1, -5, size - 1, size, size + 1, -size, -size - 1, 2 ** 31, -(2 ** 31), 65_535, 65_536,
  NaN, "7", "", "-3", true, false, [], [3],
];

/** Pseudo-random pairs, the same ones in each run. */
function* pairs(count) {
  let state = 7;
  const next = () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0);
  const one = () => indices[(next() >>> 8) % indices.length];
  const index = () => (next() % 3 === 0 ? one() : ((next() >>> 4) % (3 * size)) - size);
  for (let at = 0; at < count; at++) yield [index(), index()];
}

/** Numbers, and the integers that the standard makes of them: the nearest one, and of two the even one. */
const rounded = [
  [0.4, 0], [0.5, 0], [0.6, 1], [1.4, 1], [1.5, 2], [2.5, 2], [3.5, 4], [-0.5, 0], [-0.6, -1], [-1.5, -2], [-2.5, -2],
  ["1.5", 2], [1e300, size], [Infinity, size], [-Infinity, 0], [2 ** 53, size], [-(2 ** 53), 0], [2 ** 64, size],
];

const types = ["text/plain", "TEXT/Plain", "", "a\u0000b", "é", " ", "a;b=C", undefined, null, 5, true, ["A", "b"],
  { toString: () => "Object" }];

const cases = {
  "the whole Blob": shown,
  "its class": (blob) => [blob instanceof Blob, Object.prototype.toString.call(blob), blob instanceof File],
  "its size cannot be set": (blob) => {
    try {
      blob.size = 5;
    } catch {} // modules are strict
    return blob.size;
  },
  "slice without arguments": (blob) => shown(blob.slice()),
  "a slice of a slice": (blob) => shown(blob.slice(100, 1000).slice(10, -10).slice(5)),
  "a slice behind the end": (blob) => shown(blob.slice(size, size + 5)),
  "a slice whose end is before its start": (blob) => shown(blob.slice(10, 5)),
  "slice takes no required argument": (blob) => blob.slice.length,
  "a slice has no type": (blob) => blob.slice(0, 5).type,
  "a slice is another object": (blob) => blob.slice() === blob,
  "text": async (blob) => (await blob.text()).length,
  "text of a character that is cut": (blob) => blob.slice(1, 4).text(),
  "text of nothing": (blob) => blob.slice(0, 0).text(),
  "arrayBuffer": async (blob) => {
    const [one, other] = await Promise.all([blob.arrayBuffer(), blob.arrayBuffer()]);
    return [one instanceof ArrayBuffer, one === other, one.byteLength];
  },
  "a stream": async (blob) => {
    let length = 0;
    for await (const piece of blob.stream()) length += piece instanceof Uint8Array ? piece.length : NaN;
    return length;
  },
  "a stream of nothing": async (blob) => (await blob.slice(0, 0).stream().getReader().read()).done,
  "two streams": async (blob) => {
    const [one, other] = [blob.stream(), blob.stream()];
    const bytes = await Promise.all([one, other].map((stream) => new Response(stream).arrayBuffer()));
    return [one === other, ...bytes.map(({ byteLength }) => byteLength)];
  },
  "a stream that is cancelled": async (blob) => {
    const reader = blob.stream().getReader();
    await reader.read();
    await reader.cancel();
    return (await reader.read()).done;
  },
  "a stream that is locked": async (blob) => {
    const stream = blob.stream();
    stream.getReader();
    return [stream.locked, await rejection((async () => stream.getReader())())];
  },
  "textStream is a method of both or of none": (blob) => typeof blob.textStream,
  "a symbol as an index": (blob) => rejection((async () => blob.slice(Symbol()))()),
  "an index that throws": (blob) => {
    const valueOf = () => {
      throw new RangeError("no index");
    };
    return rejection((async () => blob.slice({ valueOf }))());
  },
};
for (const type of types) cases[`a slice of the type ${String(type)}`] = (blob) => blob.slice(0, 5, type).type;

export async function tests({ load, one }) {
  const { openFile } = await load("weightstream.node.js");
  const at = (path) => one.origin + path;
  const options = { cache: "none" };
  const real = new Blob([content], { type: TYPE });
  const file = await openFile(at(`/file?type=${encodeURIComponent(TYPE)}`), options);
  const lazy = file.blob();

  const all = {};
  for (const [name, test] of Object.entries(cases)) {
    all[name] = async () => {
      const [expected, found] = await Promise.all([real, lazy].map(async (blob) => JSON.stringify(await test(blob))));
      return expected === found || `${found}, of a real Blob ${expected}`;
    };
  }
  all["200 random slices"] = async () => {
    const wrong = [];
    for (const [first, last] of pairs(200)) {
      // What a real Blob makes of the integers that these arguments are.
      const [from, to] = [first, last].map((index) => (index === undefined ? index : Number(index) || 0));
      const slices = [real.slice(from, to), lazy.slice(first, last)];
      const [expected, found] = await Promise.all(slices.map(async (slice) => JSON.stringify(await shown(slice))));
      if (expected !== found) wrong.push(`slice(${first}, ${last}): ${found}, not ${expected}`);
    }
    return wrong.length === 0 || wrong.slice(0, 5).join("; ");
  };
  for (const [index, integer] of rounded) {
    all[`the index ${index}`] = () => {
      const found = [lazy.slice(index).size, lazy.slice(0, index).size];
      const expected = [real.slice(integer).size, real.slice(0, integer).size];
      return `${found}` === `${expected}` || `${found}, not ${expected}`;
    };
  }
  for (const [name, path, given, type] of [
    ["without a Content-Type", "/file", {}, ""],
    ["of the option `type`", "/file", { type: "Image/PNG" }, "image/png"],
    ["of a file whose extension has one", "/missing.json", { fetch: () => fetch(at("/file")) }, ""],
    ["with other characters", "/file", { type: "é" }, ""],
  ]) {
    all[`the type ${name}`] = async () => {
      const { type: found } = (await openFile(at(path), { ...options, ...given })).blob();
      return found === type || `"${found}"`;
    };
  }
  return all;
}
