// @ts-check
// A Response as a source. Its body is read once, from its start to its end, like that of a server without Range
// requests. Other files of the model are requested relative to its URL.
import { getter, tryGet } from "../options/check.js";
import { fail, invalid } from "../loader/error.js";
import { messageOf } from "../module/guard.js";

const bodyUsedOf = getter("Response", "bodyUsed");

/**
 * @param {unknown} source
 * @returns {source is Response}
 */
export const isResponse = (source) => tryGet(bodyUsedOf, source) !== undefined;

/** The URL of a Response that has none. */
const NO_URL = "response:body";

/**
 * The URL of a Response, and the options with which it is read. Nothing is cached, because the bytes of a Response need
 * not be those at its URL.
 *
 * @param {Response} response
 * @param {typeof globalThis.fetch} [base] Requests the other files of the model.
 * @returns {[url: string, options: { fetch: typeof globalThis.fetch, cache: "none" }]}
 */
export function onceOptions(response, base = (input, init) => globalThis.fetch(input, init)) {
  check(response);
  const url = response.url || NO_URL;
  const body = response.body?.getReader();
  let isRead = false;
  /** @type {unknown} */
  let failure;
  /** @type {typeof globalThis.fetch} */
  const fetch = async (input, init) => {
    if (String(input) !== url) return base(input, init);
    if (isRead) throw spent(url, failure);
    isRead = true;
    return new Response(body && streamOf(body, init?.signal, (error) => (failure = error)), {
      status: response.status,
      headers: headersOf(response),
    });
  };
  return [url, { fetch, cache: "none" }];
}

/** @param {Response} response */
function check({ type, ok, status, url, bodyUsed, body }) {
  if (type === "opaque" || type === "opaqueredirect" || type === "error") {
    throw invalid(`\`source\` is a Response of type "${type}", which cannot be read: request it with CORS`);
  }
  if (!ok) {
    const what = `the server did not send the file (HTTP status ${status})`;
    const message = `${url || "`source`"}: ${what}. Check the URL.`;
    throw fail({ code: "HTTP", message, url: url || undefined, status });
  }
  if (status === 206) throw invalid("`source` is a Response with a part of the file: request it without Range");
  if (bodyUsed || body?.locked) {
    throw invalid("`source` is a Response whose body was already read or is locked: pass its clone()");
  }
}

/** @param {Response} response */
function headersOf({ type, headers: given }) {
  const headers = new Headers(given);
  // Without a readable Content-Encoding, the length may be that of a compressed body, which the browser has decoded.
  if (type === "cors" && !headers.has("Content-Encoding")) headers.delete("Content-Length");
  return headers;
}

/**
 * @param {ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>} body
 * @param {AbortSignal | null | undefined} signal
 * @param {(error: unknown) => void} onError
 */
function streamOf(body, signal, onError) {
  const cancel = (/** @type {unknown} */ reason) => body.cancel(reason).catch(() => {}); // it is no longer needed
  signal?.addEventListener("abort", () => cancel(signal.reason));
  return new ReadableStream({
    async pull(controller) {
      try {
        const { value, done } = await body.read();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        onError(error);
        throw error;
      }
    },
    cancel,
  }, { highWaterMark: 0 });
}

/**
 * The error for a second request.
 *
 * @param {string} url
 * @param {unknown} failure Why the body could not be read.
 */
function spent(url, failure) {
  const what = "a Response can be read only once, from its start to its end";
  if (failure !== undefined) return fail({
    code: "NETWORK",
    message: `${url}: the connection broke (${messageOf(failure)}), and ${what}. ` +
      "Open its URL, so that loads can resume.",
    url,
    cause: failure,
  });
  const message = `${url}: ${what}, and this call needs bytes that were read before. ` +
    "Load tensors in file order, such as with tensors(), or open the URL.";
  return fail({ code: "UNSUPPORTED", message, url });
}
