// @ts-check
// `weightstream/wllama`: the Blobs of a GGUF model, for `wllama.loadModel`.
import { openFile } from "../../weightstream.js";
import { invalid } from "../../loader/error.js";
import { dispose } from "../../module/module.js";
import { commonSignature, filesOptions } from "../../options/options.js";
import { requestPolicy } from "../../request/request_policy.js";
import { urlOf } from "../../source/url.js";

/** @import * as Api from "./wllama.js" */
/** @import { RemoteFile } from "../../weightstream.js" */

/** The end of the URL of one file of a split model, as llama.cpp and wllama name it. */
const PART = /-(\d{5})-of-(\d{5})(\.gguf(?:[?#].*)?)$/i;

/** The maximum number of files of a model, as for `StreamingLoader`. A wrong name must not cause more requests. */
const MAX_PARTS = 1024;

/** @type {typeof Api.modelBlobs} */
export async function modelBlobs(urls, options = {}) {
  const { type, digest, signal, signature, headers, credentials, origins, ...others } = filesOptions(options);
  for (const [name, value] of Object.entries({ type, digest })) {
    if (value !== undefined) throw invalid(`\`${name}\` is an option of openFile() for one file, and not for a model`);
  }
  const addresses = partsOf(urls);
  if (signature && addresses.length > 1) commonSignature(signature, "signature");
  const sentTo = requestPolicy({ headers, credentials, origins }, addresses[0]);
  const common = { ...others, hub: options.hub, signature: options.signature };
  const open = (/** @type {string} */ url, /** @type {AbortSignal} */ stop) =>
    openFile(url, { ...common, ...sentTo(url), signal: stop });
  const files = await allOpened(addresses, open, signal);
  const close = () => files.forEach((file) => file.close());
  try {
    const blobs = files.map((file) => file.blob());
    const methods = { close: { value: close }, [dispose]: { value: close } };
    return Object.defineProperties(/** @type {any} */ (blobs), methods);
  } catch (error) {
    close();
    throw error;
  }
}

/**
 * Opens all files, or none: the first error stops the other requests.
 *
 * @param {string[]} urls
 * @param {(url: string, stop: AbortSignal) => Promise<RemoteFile>} open
 * @param {AbortSignal | undefined} signal
 */
async function allOpened(urls, open, signal) {
  const stop = new AbortController();
  const abort = () => stop.abort(signal?.reason);
  if (signal?.aborted) abort();
  signal?.addEventListener("abort", abort);
  const opening = urls.map((url) => open(url, stop.signal));
  try {
    return await Promise.all(opening);
  } catch (error) {
    stop.abort(error);
    for (const file of opening) file.then((file) => file.close(), () => {});
    throw error;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

/**
 * The URLs of all files of a model. One URL of a split model stands for all of its files.
 *
 * @param {Parameters<typeof Api.modelBlobs>[0]} given
 */
function partsOf(given) {
  if (Array.isArray(given)) {
    if (given.length === 0) throw invalid("`urls` is an empty list, but must contain the URLs of the model's files");
    return given.map((url) => urlOf(url));
  }
  const url = urlOf(given);
  const [end, , count, extension] = PART.exec(url) ?? [];
  if (end === undefined) return [url];
  if (Number(count) > MAX_PARTS) throw invalid(`${url} is a model of more than ${MAX_PARTS} files`);
  const start = url.slice(0, -end.length);
  return Array.from({ length: Number(count) }, (_, at) =>
    `${start}-${String(at + 1).padStart(5, "0")}-of-${count}${extension}`);
}
