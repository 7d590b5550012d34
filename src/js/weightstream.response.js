// @ts-check
// Responses whose errors are those of their stream.

/**
 * A `Response` whose methods reject with the error of its stream. Those of the browser reject with a `TypeError`
 * instead, whatever failed.
 *
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream
 * @param {{ status: number, headers: Headers, url: string }} how
 * @returns {Response}
 */
export const responseOf = (stream, { status, headers, url }) =>
  withErrors(new Response(stream, { status, headers }), url);

/**
 * @param {Response} response
 * @param {string} url
 * @returns {Response}
 */
function withErrors(response, url) {
  const type = response.headers.get("Content-Type") ?? "";
  const bytes = () => bodyOf(response);
  const text = async () => new TextDecoder().decode(await bytes());
  const methods = {
    bytes,
    text,
    arrayBuffer: async () => (await bytes()).buffer,
    blob: async () => new Blob([await bytes()], { type }),
    formData: async () => new Response(await bytes(), { headers: response.headers }).formData(),
    json: async () => JSON.parse(await text()),
    clone: () => withErrors(Response.prototype.clone.call(response), url),
  };
  for (const [name, value] of Object.entries(methods)) Object.defineProperty(response, name, { value });
  return Object.defineProperty(response, "url", { value: url });
}

/** @param {Response} response */
async function bodyOf(response) {
  if (response.bodyUsed || response.body?.locked) throw new TypeError("The body was already read.");
  const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body).getReader();
  const pieces = [];
  for (let next; !(next = await reader.read()).done;) pieces.push(next.value);
  return joined(pieces);
}

/** @param {Uint8Array<ArrayBuffer>[]} pieces */
export function joined(pieces) {
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}
