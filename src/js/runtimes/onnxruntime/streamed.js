// @ts-check
// A graph that computes while its weights arrive.
import { StreamingLoader, openFile } from "../../weightstream.js";
import { checkAborted, untilAborted } from "../../loader/abort.js";
import { CloseListeners } from "../../loader/closing.js";
import { fail, invalid } from "../../loader/error.js";
import { openOptions } from "../../options/options.js";
import { textOf, urlOf } from "../../source/url.js";
import { bytesOf } from "./options.js";
import { partsOf } from "./parts.js";
import { StreamedSession } from "./streamed_session.js";
import { inTurn } from "./turns.js";

/** @import * as Api from "./onnxruntime.js" */
/** @import { BlobSource } from "../../file/blob.js" */
/** @import { streamedOptions } from "./options.js" */
/** @import { Part, Parts, Segment } from "./parts.js" */
/** @import { Range } from "./ranges.js" */

/**
 * Begins to read these ranges of a model. `ends` calls its listeners when they are not needed any more.
 *
 * @typedef {(
 *   loader: StreamingLoader, location: string, inOrder: Range[], ends: CloseListeners,
 * ) => Promise<BlobSource>} ReadAhead
 */

/** The options of `StreamingLoader.open` that the graph is opened with, too. */
const FILE_OPTIONS = ["signal", "fetch", "headers", "credentials", "cache", "cacheKey", "retry", "hub", "signature"];

/**
 * @param {unknown} source The graph.
 * @param {ReturnType<typeof streamedOptions>} how
 * @param {ReadAhead} readAhead
 * @returns {Promise<StreamedSession>}
 */
export async function openStreamed(source, how, readAhead) {
  const { ort, weights, session, open: given, signal } = how;
  if (!ort) throw invalid("`ort` is missing: pass ONNX Runtime Web, or a promise of it");
  if (session && "externalData" in session) throw invalid("`session.externalData` is that of the parts: leave it out");
  openOptions(given);
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
    const ends = new CloseListeners();
    if (isOwn) ends.add(() => loader.close());
    try {
      const data = await readAhead(loader, parts.location, rangesInOrder(parts.parts), ends);
      await data.open();
      checkEnd(parts, data.byteLength() ?? 0);
      const create = (/** @type {Part} */ part, /** @type {AbortSignal} */ stop) =>
        createSession(runtime, part, { path: parts.location, data, options: session, stop });
      return new StreamedSession(parts, create, { close: () => ends.call(), signal });
    } catch (error) {
      ends.call();
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
  if (bytes && open.signature) throw invalid("`open.signature` needs the address of the graph, not its bytes");
  if (bytes) return bytes;
  const names = FILE_OPTIONS.filter((name) => open[name] !== undefined);
  const options = Object.fromEntries(names.map((name) => [name, open[name]]));
  if (options.signature) options.signature = { ...options.signature, path: undefined }; // that of the weights
  const file = await openFile(source, options);
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
  if (/^\.*$|[/\\\p{Cs}]/u.test(name)) {
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
 * Creates the session of a part, whose weights are in memory then: ONNX Runtime must not wait for them, because its
 * module cannot do anything else until they arrive.
 *
 * @param {Promise<any>} ort
 * @param {Part} part
 * @param {{ path: string, data: BlobSource, options: object | undefined, stop: AbortSignal }} how
 * @returns {Promise<Api.RuntimeSession<any>>}
 */
async function createSession(ort, { graph, segments }, { path, data, options, stop }) {
  const weights = await weightsOf(segments, data, stop);
  const runtime = await untilAborted(stop, () => ort);
  const { InferenceSession } = runtime.InferenceSession ? runtime : (runtime.default ?? runtime);
  if (typeof InferenceSession?.create !== "function") throw invalid("`ort` is not ONNX Runtime Web");
  const externalData = weights.length > 0 ? { externalData: [{ path, data: weights }] } : {};
  const session = await inTurn(InferenceSession, async () => {
    checkAborted(stop);
    return InferenceSession.create(graph, { ...options, ...externalData });
  });
  return {
    run: (feeds, given) => inTurn(InferenceSession, async () => session.run(feeds, given)),
    release: () => inTurn(InferenceSession, async () => session.release()),
  };
}

/**
 * The weights of a part: the segments, one after another.
 *
 * @param {Segment[]} segments
 * @param {BlobSource} data
 * @param {AbortSignal} stop
 */
async function weightsOf(segments, data, stop) {
  const last = segments[segments.length - 1];
  const bytes = new Uint8Array(last ? last.at + last.end - last.start : 0);
  for (const { start, end, at: first } of segments) {
    let at = first;
    for await (const piece of data.read(start, end, stop)) {
      bytes.set(piece, at);
      at += piece.length;
    }
  }
  return bytes;
}
