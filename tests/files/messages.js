// The messages for sources and options that are wrong: each names what is wrong and what is expected.
import { Failures, openFile } from "./common.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");

const SOURCES = [
  ["", "INVALID_ARGUMENT: `source` is an empty string, but must be a URL."],
  ["htp://host/m.gguf", 'INVALID_ARGUMENT: "htp://host/m.gguf" has the scheme `htp`: did you mean `http`?'],
  ["htps:host/m.gguf", "has the scheme `htps`: did you mean `https`?"],
  ["s3://bucket/m.gguf", "has the scheme `s3`, which cannot be fetched: pass the https URL of the file."],
  ["xyz://host/m.gguf", "NETWORK: xyz://host/m.gguf", "`fetch` does not load this URL here", "the scheme `xyz`"],
  ["localhost:8000/m", 'has no scheme: did you mean "http://localhost:8000/m"?'],
  ["http://[", 'INVALID_ARGUMENT: "http://[" is not a valid URL.'],
  ["/fixtures/foreign/git_lfs.safetensors", "UNSUPPORTED:", "is a Git LFS pointer", "git lfs pull"],
  ["/fixtures/foreign/page.html", "UNSUPPORTED:", "is a web page", "Check the URL"],
  [42, "INVALID_ARGUMENT: `source` is 42, but must be a URL, a Blob, a File, files, a FileSystemHandle"],
  [["m.gguf"], 'INVALID_ARGUMENT: `source` is an array with "m.gguf", but must contain only Files and handles'],
];

const OPTIONS = [
  [{ foo: 1 }, "there is no option `foo`: open has `signal`, `fetch`, `headers`"],
  [{ chache: "none" }, "there is no option `chache`: did you mean `cache`?"],
  [{ retry: { tries: 3 } }, "there is no option `retry.tries`: `retry` has `attempts`, `baseDelay`"],
  [{ concurrency: 0 }, "`concurrency` is 0, but must be an integer from 1 to 16."],
  [{ cache: 3 }, '`cache` is 3, but must be one of "auto", "opfs", "none", a FileSystemDirectoryHandle'],
  [{ verify: "yes" }, '`verify` is "yes", but must be true or false.'],
];

export async function wrongSources() {
  const failures = new Failures();
  for (const [source, ...wanted] of SOURCES) {
    const options = { cache: "none", retry: { baseDelay: 1 } };
    await failures.rejects(`open(${JSON.stringify(source)})`, StreamingLoader.open(source, options), ...wanted);
    if (wanted[0].startsWith("UNSUPPORTED") || Array.isArray(source)) continue; // openFile opens any file
    await failures.rejects(`openFile(${JSON.stringify(source)})`, openFile(source, options), ...wanted);
  }
  // A `fetch` of the caller may know any scheme.
  const fetch = async (url) => new Response(`the file at ${url}`);
  const file = await openFile("s3://bucket/file", { fetch, cache: "none" });
  failures.same("own fetch", await file.text(), "the file at s3://bucket/file");
  return failures;
}

export async function wrongOptions() {
  const failures = new Failures();
  for (const [options, ...wanted] of OPTIONS) {
    const opening = StreamingLoader.open("/fixtures/safetensors/basic.safetensors", options);
    await failures.rejects(JSON.stringify(options), opening, "INVALID_ARGUMENT", ...wanted);
  }
  return failures;
}

// The URL of such a worker is no base for relative URLs.
export async function relativeUrlsWithoutABase() {
  const failures = new Failures();
  const module = new URL("/pkg/weightstream.js", location.href).href;
  const script = `(async () => {
    const { StreamingLoader } = await import("${module}");
    StreamingLoader.open("model.gguf").catch(({ code, message }) => postMessage([code, message]));
  })()`;
  const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const [code, message] = await new Promise((resolve) => (worker.onmessage = ({ data }) => resolve(data)));
  worker.terminate();
  failures.same("the code", code, "INVALID_ARGUMENT");
  const parts = ['"model.gguf" is a relative URL, but "blob:', "cannot be a base: pass an absolute URL."];
  failures.same(message, parts.every((part) => message.includes(part)), true);
  return failures;
}
