// Options: everything that `fetch` accepts is accepted, undefined is the default, and everything else is an error that
// names the option.
import { Faults, LoadError, MODEL, StreamingLoader, open, outcome, safetensors, slowFetch } from "./common.js";

const file = safetensors(4, 64);
const both = [false, true];

const frame = () => {
  const element = document.createElement("iframe");
  document.body.append(element);
  return element.contentWindow;
};

export async function headersAndSignals() {
  const faults = new Faults();
  const other = frame();
  const pairs = [["X-One", "1"], ["X-Two", "2"]];
  const given = {
    object: Object.fromEntries(pairs), pairs, Headers: new Headers(pairs), Map: new Map(pairs),
    foreign: new other.Headers(pairs),
  };
  for (const [what, headers] of Object.entries(given)) {
    const fetch = slowFetch(file);
    const loader = await StreamingLoader.open(
      new URL("/slow", location.href), { fetch, headers, cache: "none", workers: 0 },
    );
    loader.close();
    faults.same(
      what, fetch.requests[0].headers.filter(([name]) => name.startsWith("x-")), [["x-one", "1"], ["x-two", "2"]],
    );
  }
  const controller = new other.AbortController();
  const loader = await open("/slow", { fetch: slowFetch(file, 50), signal: controller.signal });
  const loading = outcome(loader.loadTensor("t0..", { signal: controller.signal }));
  controller.abort(new Error("enough"));
  faults.expect("a foreign signal", await loading, "enough");
  loader.close();
  return faults;
}

export async function refused() {
  const faults = new Faults();
  const wrong = {
    credentials: ["Include", "yes", 1, null],
    headers: ["x", 5, [["only"]], { "bad name": "x" }, { Range: "bytes=0-1" }, null],
    signal: [{}, "x", { aborted: false, addEventListener() {} }],
    fetch: ["x", {}], onProgress: ["often", null], verify: ["yes", 0, null], inWorker: ["yes", 1],
    concurrency: [0, 17, 1.5, NaN, -1, "4", 4n, null], coalesceGap: [-1, NaN, Infinity, "1"],
    maxMemory: [-1, 0.5, Infinity],
    workers: [-1, 17, NaN], cache: ["Auto", "disk", {}, 5, null],
    digests: ["x", [], { tensor: {} }, { tensors: { a: 5 } }, { tensors: { a: undefined } }, { files: ["x"] }],
    retry: [5, "x", { attempts: -1 }, { attempt: 3 }, { baseDelay: NaN }, { stallTimeout: "1" }, null],
    concurency: [4], foo: [1],
  };
  for (const inWorker of both) {
    for (const [name, values] of Object.entries(wrong)) {
      for (const value of values) {
        const said = await outcome(open(MODEL, { ...(name !== "inWorker" && { inWorker }), [name]: value }));
        faults.expect(
          `${name}: ${typeof value === "bigint" ? value : JSON.stringify(value)}`, said, "INVALID_ARGUMENT: ", name,
        );
      }
    }
    const meant = await outcome(open(MODEL, { inWorker, credentials: "Include" }));
    faults.expect("the nearest word", meant, "`include`");
    faults.expect("the nearest option", await outcome(open(MODEL, { inWorker, concurency: 4 })), "`concurrency`");
    faults.expect(
      "the nearest option in retry", await outcome(open(MODEL, { inWorker, retry: { attempt: 4 } })),
      "`retry.attempt`", "`attempts`",
    );
  }
  for (const options of [null, "x", 5, [], new Map()]) {
    faults.expect(`options ${options}`, await outcome(StreamingLoader.open(MODEL, options)), "INVALID_ARGUMENT");
  }
  for (const source of [5, null, undefined, {}, ["x"], [new Blob([])], []]) {
    for (const inWorker of both) faults.expect(
      `source ${source}`, await outcome(open(source, { inWorker })), "INVALID_ARGUMENT",
    );
  }
  return faults;
}

export async function ofCalls() {
  const faults = new Faults();
  for (const inWorker of both) {
    const loader = await open(new Blob([file]), { inWorker });
    const refused = async (what, call, ...named) => {
      let promise;
      try {
        promise = call();
      } catch (error) {
        promise = Promise.reject(error);
      }
      faults.expect(what, await outcome(promise), "INVALID_ARGUMENT: ", ...named);
    };
    for (const rows of [[0], [0, NaN], [-1, 2], [0n, 1n], [2, 1], "all", 5, [0, 1, 2], [0, 1.5], null, {}]) {
      await refused(`rows ${String(rows)}`, () => loader.loadTensor("t0..", { rows }), "rows");
    }
    for (const into of [5, "x", {}, [1], null]) await refused(
      `into ${into}`, () => loader.loadTensor("t0..", { into }), "into",
    );
    for (const signal of [5, {}]) await refused(
      `signal ${signal}`, () => loader.loadTensor("t0..", { signal }), "signal",
    );
    await refused("an unknown one", () => loader.loadTensor("t0..", { row: [0, 1] }), "row", "`rows`");
    await refused("no name", () => loader.loadTensor());
    await refused("a signal for options", () => loader.verify(new AbortController().signal));
    await refused("an unknown one of verify", () => loader.verify({ names: [] }), "names");
    await refused("an array", () => loader.tensors(["t0.."]).next(), "tensors({ names: [...] })");
    await refused("a string", () => loader.tensors("t0..").next(), "tensors({ names: [...] })");
    await refused("a set", () => loader.tensors(new Set(["t0.."])).next(), "tensors({ names: [...] })");
    for (const names of ["t0..", 5, null, {}, [5], [undefined]]) await refused(
      `names ${names}`, () => loader.tensors({ names }).next(), "names",
    );
    await refused("an unknown one of tensors", () => loader.tensors({ name: ["t0.."] }).next(), "`names`");
    await refused("prefetch of a string", () => loader.prefetch("t0.."), "names");
    await refused("prefetch of nothing", () => loader.prefetch(), "names");
    const undefinedOnes = { signal: undefined, into: undefined, rows: undefined };
    faults.expect("undefined", await outcome(loader.loadTensor("t0..", undefinedOnes)), "done");
    faults.expect("verify", await outcome(loader.verify({ signal: undefined })), "done");
    let count = 0;
    for await (const { name } of loader.tensors({ names: undefined, signal: null })) count += name.length > 0;
    faults.same("all of them", count, 4);
    faults.same("a set of names", (await loader.tensors({ names: new Set(["t1.."]) }).next()).value.name, "t1..");
    loader.close();
  }
  return faults;
}

export async function undefinedIsTheDefault() {
  const faults = new Faults();
  const options = [
    "signal", "fetch", "headers", "credentials", "onProgress", "verify", "concurrency", "coalesceGap", "cache",
    "maxMemory", "workers", "inWorker", "digests", "retry",
  ];
  const all = Object.fromEntries(options.map((name) => [name, undefined]));
  const nested = {
    digests: { tensors: undefined, files: undefined },
    retry: { attempts: undefined, baseDelay: undefined, maxDelay: undefined, stallTimeout: undefined },
  };
  for (const inWorker of both) {
    for (const given of [{ ...all, inWorker }, { ...nested, inWorker, cache: "none" }]) {
      faults.expect(
        "undefined", await outcome(StreamingLoader.open(MODEL, given).then((loader) => loader.close())), "done",
      );
    }
    const digest = `sha256:${"0".repeat(64)}`;
    for (const tensors of [{ "t0..": digest }, new Map([["t0..", digest]])]) {
      const loader = await open(new Blob([file]), { inWorker, digests: { tensors } });
      faults.expect("a digest", await outcome(loader.loadTensor("t0..")), "CHECKSUM");
      loader.close();
    }
    faults.expect(
      "no digest", await outcome(open(MODEL, { inWorker, digests: { tensors: { a: "md5:00" } } })),
      "INVALID_ARGUMENT", "digests.tensors",
    );
  }
  return faults;
}

export async function otherRealms() {
  const faults = new Faults();
  const other = frame();
  const bytes = new other.Uint8Array(file);
  const sources = {
    ArrayBuffer: bytes.buffer, Uint8Array: bytes, Blob: new other.Blob([bytes]), File: new other.File(
      [bytes], "a.safetensors",
    ),
    Files: [new other.File([bytes], "a.safetensors")], URL: new other.URL(new URL(MODEL, location.href)),
    ByteSource: { byteLength: file.length, slice: (start, end) => bytes.buffer.slice(start, end) },
  };
  for (const [what, source] of Object.entries(sources)) {
    for (const inWorker of both) {
      if (inWorker && what === "ByteSource") continue;
      const load = async () => {
        const loader = await open(source, { inWorker });
        const [{ name, byteLength }] = await loader.loadIndex();
        for (const into of [new other.ArrayBuffer(byteLength), new other.Uint8Array(byteLength)]) {
          const { data } = await loader.loadTensor(name, { into });
          if (data.buffer !== (into.buffer ?? into)) throw new Error("other memory");
        }
        loader.close();
      };
      faults.expect(`${what}, inWorker: ${inWorker}`, await outcome(load()), "done");
    }
  }
  const foreign = (...request) => other.fetch(...request);
  faults.expect("a foreign Response", await outcome(open(new URL(MODEL, location.href), { fetch: foreign })), "done");
  faults.same("one class of errors", (await open("/nowhere").catch((error) => error)) instanceof LoadError, true);
  return faults;
}
