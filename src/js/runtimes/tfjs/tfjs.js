// @ts-check
// `weightstream/tfjs`: models of TensorFlow.js, for `tf.loadGraphModel` and `tf.loadLayersModel`.
import { StreamingLoader, openFile } from "../../weightstream.js";
import { fail } from "../../loader/error.js";
import { checkModel, isGraph, weightsIn } from "./manifest.js";
import * as options from "../../options/options.js";
import { requestPolicy } from "../../request/request_policy.js";
import { artifactsOf } from "./open_model.js";
import { inMemory, weightStream } from "./shards.js";
import { urlOf } from "../../source/url.js";

/** @import * as Api from "./tfjs.js" */
/** @import { Model } from "./manifest.js" */
/** @import { Group } from "./shards.js" */

const OPEN_MODEL = { signal: options.signal, onProgress: options.callable, streamWeights: options.boolean };
const openModelOptions = options.optional(options.options(OPEN_MODEL, "ioHandler with an open model"));
const checked = options.optional(options.options({
  ...options.FILES,
  ...OPEN_MODEL,
  digests: options.digests,
  weightPathPrefix: options.string,
  weightUrlConverter: options.callable,
}, "ioHandler"));

/** @typedef {ReturnType<typeof checked> & { sentTo: ReturnType<typeof requestPolicy> }} Options */

/**
 * @param {string | URL | StreamingLoader} source
 * @param {Api.IoHandlerOptions} [given]
 * @returns {Api.TfjsHandler}
 */
export function ioHandler(source, given) {
  if (source instanceof StreamingLoader) {
    const options = openModelOptions(given);
    return { load: () => artifactsOf(source, options) };
  }
  const address = urlOf(source);
  const options = checked(given);
  const how = { ...options, sentTo: requestPolicy(options, address) };
  return { load: () => load(address, how) };
}

/**
 * @param {string} url
 * @param {Options} how
 */
async function load(url, how) {
  const model = checkModel(await readJson(url, how), url);
  const { weightsManifest, ...others } = model;
  /** @type {Api.TfjsArtifacts} */
  const artifacts = others;
  if (!weightsManifest) return artifacts;

  artifacts.weightSpecs = weightsIn(weightsManifest);
  const groups = await groupsOf(model, url, how);
  const source = { url, signal: how.signal, onProgress: how.onProgress };
  if (how.streamWeights ?? isGraph(model)) artifacts.getWeightStream = () => weightStream(groups, source);
  else artifacts.weightData = await inMemory(groups, source);
  return artifacts;
}

/**
 * @param {string} url
 * @param {Options} how
 */
async function readJson(url, how) {
  const file = await openFile(url, { ...fileOptions(url, how), hub: null, digest: digestOf(how, nameOf(url), url) });
  try {
    return await file.json({ signal: how.signal });
  } finally {
    file.close();
  }
}

/**
 * The files of the weights, with the weights of each group.
 *
 * @param {Model} model
 * @param {string} url
 * @param {Options} how
 * @returns {Promise<Group[]>}
 */
async function groupsOf({ weightsManifest = [] }, url, how) {
  const used = new Set([nameOf(url), url]);
  const groups = await Promise.all(weightsManifest.map(async ({ paths, weights }) => {
    const files = await Promise.all(paths.map(async (path) => {
      const address = await urlOfShard(path, url, how);
      const names = [path, nameOf(address), address];
      for (const name of names) used.add(name);
      const given = { ...fileOptions(address, how), hub: null, digest: digestOf(how, ...names) };
      return { url: address, open: (/** @type {AbortSignal} */ signal) => openFile(address, { ...given, signal }) };
    }));
    return { weights, files };
  }));
  for (const name of how.digests?.keys() ?? []) {
    if (used.has(name)) continue;
    throw fail({ code: "NOT_FOUND", message: `\`digests\` has "${name}", but ${url} has no file of this name.`, url });
  }
  return groups;
}

/**
 * The URL of a file of weights, as `tf.io.http` has it: beside the model, with the same query.
 *
 * @param {string} path
 * @param {string} url
 * @param {Options} how
 */
async function urlOfShard(path, url, { weightPathPrefix, weightUrlConverter }) {
  if (weightUrlConverter) return urlOf(await weightUrlConverter(path));
  const [, folder = "", query = ""] = /^([^?#]*\/)[^?#]*(\?[^#]*)?/.exec(url) ?? [];
  return urlOf((weightPathPrefix ?? folder) + path + query);
}

/**
 * @param {string} url
 * @param {Options} how
 */
function fileOptions(url, { signal, fetch, cache, cacheKey, crossOriginStorage, retry, sentTo }) {
  return { signal, fetch, cache, cacheKey, crossOriginStorage, retry, ...sentTo(url) };
}

/**
 * @param {Options} how
 * @param {string[]} names
 */
function digestOf({ digests }, ...names) {
  const name = names.find((name) => digests?.has(name));
  return name === undefined ? undefined : /** @type {import("../../weightstream.js").Digest} */ (digests?.get(name));
}

/** @param {string} url */
const nameOf = (url) => url.replace(/[?#].*$/s, "").split("/").pop() ?? "";
