// @ts-check
// Responses whose errors are those of their stream.

/** What a `Response` says that its constructor does not take. */
/** @typedef {Partial<Pick<Response, "url" | "type" | "redirected">>} Seen */

/**
 * A `Response` whose methods reject with the error of its stream. Those of the browser reject with a `TypeError`
 * instead, whatever failed.
 *
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream
 * @param {ResponseInit & Seen} how
 * @returns {Response}
 */
export const responseOf = (stream, { url, type, redirected, ...init }) =>
  withErrors(new Response(stream, init), { url, type, redirected });

/**
 * @param {Response} response
 * @param {{ [Name in keyof Seen]: Seen[Name] | undefined }} seen
 * @returns {Response}
 */
function withErrors(response, seen) {
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
    clone: () => withErrors(Response.prototype.clone.call(response), seen),
  };
  for (const [name, value] of Object.entries(methods)) Object.defineProperty(response, name, { value });
  return asSeen(response, seen);
}

/**
 * The response, with what its constructor does not take. As in `fetch`, the headers of a response that came from a
 * server cannot be changed.
 *
 * @param {Response} response
 * @param {{ [Name in keyof Seen]: Seen[Name] | undefined }} seen
 */
export function asSeen(response, seen) {
  for (const [name, value] of Object.entries(seen)) {
    if (value !== undefined) Object.defineProperty(response, name, { value });
  }
  if (seen.type === undefined) return response;
  const refuse = () => {
    throw new TypeError("The headers of a response of fetch cannot be changed.");
  };
  for (const name of ["append", "delete", "set"]) Object.defineProperty(response.headers, name, { value: refuse });
  return response;
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
