// @ts-check
// ECDSA in the terms of WebCrypto.

/** The curves of OpenSSF Model Signing: the hash of each, and the length of a coordinate in bytes. */
export const CURVES = /** @type {Record<string, { hash: string, length: number }>} */ ({
  "P-256": { hash: "SHA-256", length: 32 },
  "P-384": { hash: "SHA-384", length: 48 },
  "P-521": { hash: "SHA-512", length: 66 },
});

/**
 * An ECDSA signature as WebCrypto takes it: two numbers of equal length. DER, in which it is stored, is a sequence
 * of two integers without leading zeros. Undefined for anything else.
 *
 * @param {Uint8Array} der
 * @param {number} length
 */
export function rawSignature(der, length) {
  const raw = new Uint8Array(2 * length);
  let at = (der[1] ?? 0) > 0x80 ? 3 : 2; // a sequence of more than 127 bytes has one more byte of length
  if (der[0] !== 0x30 || der[at - 1] !== der.length - at) return undefined;
  for (const end of [length, 2 * length]) {
    const size = der[at + 1] ?? 0;
    let integer = der.subarray(at + 2, at + 2 + size);
    if (der[at] !== 2 || integer.length !== size || size === 0) return undefined;
    if (integer[0] === 0) integer = integer.subarray(1);
    if (integer.length > length) return undefined;
    raw.set(integer, end - integer.length);
    at += 2 + size;
  }
  return at === der.length ? raw : undefined;
}
