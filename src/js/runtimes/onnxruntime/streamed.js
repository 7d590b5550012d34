// @ts-check
// A graph that computes while its weights arrive.
import { StreamingLoader, openFile } from "../../weightstream.js";
import { lazyBlob } from "../../file/blob.js";
import { checkAborted } from "../../loader/abort.js";
import { fail, invalid } from "../../loader/error.js";
import { textOf, urlOf } from "../../source/url.js";
import { bytesOf } from "./options.js";
import { partsOf } from "./parts.js";
import { StreamedSession } from "./streamed_session.js";

/** @import * as Api from "./onnxruntime.js" */
/** @import { BlobSource } from "../../file/blob.js" */
/** @import { streamedOptions } from "./options.js" */
/** @import { Part, Parts, Segment } from "./parts.js" */
/** @import { Range } from "./ranges.js" */

/** The options of `StreamingLoader.open` that the graph is opened with, too. */
const FILE_OPTIONS = ["fetch", "headers", "credentials", "cache", "cacheKey", "retry", "hub"];

/**
 * @param {unknown} source The graph.
 * @param {ReturnType<typeof streamedOptions>} how
 * @param {(loader: StreamingLoader, location: string, inOrder: Range[]) => Promise<BlobSource>} readAhead
 * @returns {Promise<StreamedSession>}
 */
export async function openStreamed(source, how, readAhead) {
  const { ort, weights, session, open: given, signal } = how;
  if (!ort) throw invalid("`ort` is missing: pass ONNX Runtime Web, or a promise of it");
  const open = { ...(signal && { signal }), ...given };
  const runtime = Promise.resolve(ort);
  runtime.catch(() => {}); // the session reports it
  const isOwn = !(weights instanceof StreamingLoader);
  // A model whose address is known arrives together with the graph.
  const early = weights === undefined || !isOwn ? undefined : StreamingLoader.open(weights, open);
  early?.catch(() => {}); // awaited below
  try {
    const parts = partsOf(await graphBytes(source, open));
    checkAborted(signal);
    const loader = isOwn ? await (early ?? StreamingLoader.open(besideOf(source, parts.weights), open)) : weights;
    try {
      const data = await readAhead(loader, parts.location, rangesInOrder(parts.parts));
      await data.open();
      checkEnd(parts, data.byteLength() ?? 0);
      const create = async (/** @type {Part} */ part) =>
        createSession(await runtime, part, parts.location, data, session);
      return new StreamedSession(parts, create, { close: () => isOwn && loader.close(), signal });
    } catch (error) {
      if (isOwn) loader.close();
      throw error;
    }
  } catch (error) {
    early?.then((loader) => loader.close(), () => {});
    throw error;
  }
}

/**
 * @param {any} source
 * @param {any} open
 */
async function graphBytes(source, open) {
  const bytes = bytesOf(source);
  if (bytes) return bytes;
  const names = ["signal", ...FILE_OPTIONS].filter((name) => open[name] !== undefined);
  const file = await openFile(source, Object.fromEntries(names.map((name) => [name, open[name]])));
  try {
    return /** @type {Uint8Array<ArrayBuffer>} */ (await file.bytes());
  } finally {
    file.close();
  }
}

/**
 * The address of a file beside the graph. Its name comes from the graph, so it must not lead anywhere else: the options
 * may have a token for this origin.
 *
 * @param {unknown} source
 * @param {string} name
 */
function besideOf(source, name) {
  const text = textOf(source);
  if (text === undefined) throw invalid("`weights` is missing: the graph is not a URL that has its weights beside it");
  if (/^\.*$|[/\\]/.test(name)) {
    const message = `\`graph\` is damaged: its weights are in "${name}", which is not a file name.`;
    throw fail({ code: "FORMAT", message });
  }
  const last = encodeURIComponent(name);
  if (/^\s*hf:/i.test(text)) return text.replace(/[^/]*$/, last);
  const url = urlOf(text, "graph");
  if (!/^(https?|file):/.test(url)) throw invalid("`weights` is missing: there is nothing beside the URL of the graph");
  return new URL(last, url).href;
}

/**
 * The ranges of all parts, in the order in which they are needed. What an earlier part needs as well is left out.
 *
 * @param {Part[]} parts
 */
function rangesInOrder(parts) {
  /** @type {Range[]} */
  const ranges = [];
  /** @type {Range[]} Sorted. */
  let seen = [];
  for (const { segments } of parts) {
    for (const { start, end } of segments) {
      let at = start;
      for (const [from, to] of [...seen.filter(([, to]) => to > start), [end, end]]) {
        const stop = Math.min(from, end);
        const last = ranges[ranges.length - 1];
        if (at < stop && last?.[1] === at) last[1] = stop;
        else if (at < stop) ranges.push([at, stop]);
        at = Math.max(at, Math.min(to, end));
      }
    }
    seen = [...seen, ...segments.map(({ start, end }) => /** @type {Range} */ ([start, end]))];
    seen.sort((a, b) => a[0] - b[0]);
  }
  return ranges;
}

/**
 * @param {Parts} parts
 * @param {number} byteLength
 */
function checkEnd({ parts, location }, byteLength) {
  const end = Math.max(0, ...parts.flatMap(({ segments }) => segments.map(({ end }) => end)));
  if (end <= byteLength) return;
  const message = `the graph needs ${end} bytes of ${location}, but the weights have ${byteLength}: ` +
    "they are not those that were written with this graph.";
  throw fail({ code: "FORMAT", message });
}

/**
 * Creates the session of a part.
 *
 * @param {any} runtime
 * @param {Part} part
 * @param {string} path
 * @param {BlobSource} data
 * @param {object | undefined} options
 * @returns {Promise<Api.RuntimeSession<any>>}
 */
async function createSession(runtime, { graph, segments }, path, data, options) {
  const { InferenceSession } = runtime.InferenceSession ? runtime : (runtime.default ?? runtime);
  if (typeof InferenceSession?.create !== "function") throw invalid("`ort` is not ONNX Runtime Web");
  /** @type {unknown[]} Why weights did not arrive, which ONNX Runtime does not say. */
  const failures = [];
  const file = lazyBlob(fileOf(segments, data, (error) => failures.push(error)), "");
  const externalData = segments.length > 0 ? { externalData: [{ path, data: file }] } : {};
  try {
    return await InferenceSession.create(graph, { ...options, ...externalData });
  } catch (error) {
    throw failures.length > 0 ? failures[0] : error;
  }
}

/**
 * The file of a part: the segments, one after another.
 *
 * @param {Segment[]} segments
 * @param {BlobSource} data
 * @param {(error: unknown) => void} onFailure
 * @returns {BlobSource}
 */
function fileOf(segments, data, onFailure) {
  const last = segments[segments.length - 1];
  const byteLength = last ? last.at + last.end - last.start : 0;
  return {
    byteLength: () => byteLength,
    open: data.open,
    async *read(from, to, signal) {
      try {
        for (const { start, end, at } of segments) {
          const [first, stop] = [Math.max(start, start + from - at), Math.min(end, start + to - at)];
          if (first < stop) yield* data.read(first, stop, signal);
        }
      } catch (error) {
        onFailure(error);
        throw error;
      }
    },
  };
}
