// @ts-check
// Whom the option `signature` trusts: the public key of the signer, or the certificates of roots. The module that
// parses signatures also parses PEM, so it must have started.
import { invalidValue } from "../options/check.js";
import { invalid } from "../loader/error.js";
import { PemCertificates, Refusal, publicKeyInPem } from "./weightstream.signatures_module.js";

/** @typedef {string | JsonWebKey | BufferSource | CryptoKey} PublicKey */

/** The curves that WebCrypto has. The module decides which are acceptable. */
const CURVES = ["P-256", "P-384", "P-521"];

/**
 * The name of the curve of a key.
 *
 * @param {CryptoKey} key
 */
export function curveOf({ algorithm }) {
  const { namedCurve = "" } = /** @type {EcKeyAlgorithm} */ (algorithm);
  if (algorithm.name === "ECDSA" && CURVES.includes(namedCurve)) return namedCurve;
  throw invalid("`signature.publicKey` is not a key for ECDSA with P-256, P-384 or P-521");
}

/**
 * @param {PublicKey} key
 * @returns {Promise<CryptoKey>}
 */
export async function importedKey(key) {
  if (Object.prototype.toString.call(key) === "[object CryptoKey]") {
    const given = /** @type {CryptoKey} */ (key);
    curveOf(given);
    if (!given.usages.includes("verify")) throw invalid('`signature.publicKey` is a CryptoKey without "verify"');
    return given;
  }
  if (typeof key === "string" && key.includes("PRIVATE KEY-----")) {
    throw invalid("`signature.publicKey` is a private key, which must not be in a page: pass its public key");
  }
  const bytes = typeof key === "string" ? readPem("publicKey", () => publicKeyInPem(key)) : key;
  const isSpki = isBytes(bytes);
  // Of a JWK, only what makes a public key: other fields may restrict its use.
  const { kty, crv, x, y } = /** @type {JsonWebKey} */ (bytes);
  const curves = isSpki ? CURVES : CURVES.filter((curve) => curve === crv);
  for (const namedCurve of curves) {
    const algorithm = { name: "ECDSA", namedCurve };
    const importing = isSpki
      ? crypto.subtle.importKey("spki", /** @type {BufferSource} */ (bytes), algorithm, true, ["verify"])
      : crypto.subtle.importKey("jwk", /** @type {JsonWebKey} */ ({ kty, crv, x, y }), algorithm, true, ["verify"]);
    const found = await importing.catch(() => undefined); // a key of another curve
    if (found) return found;
  }
  throw invalidValue("signature.publicKey", isSpki ? "bytes" : "an object",
    "a public key for ECDSA with P-256, P-384 or P-521");
}

/**
 * The SubjectPublicKeyInfo of a key. Undefined if the key may not be exported.
 *
 * @param {CryptoKey} key
 */
export const exportedKey = async (key) =>
  key.extractable ? new Uint8Array(await crypto.subtle.exportKey("spki", key)) : undefined;

/**
 * The certificates of trusted roots in DER.
 *
 * @param {unknown} given
 * @returns {Uint8Array<ArrayBuffer>[]}
 */
export function rootsOf(given) {
  const roots = (Array.isArray(given) ? given : [given]).flatMap((root) => {
    if (typeof root === "string") return certificatesIn(root);
    if (!isBytes(root)) throw invalidValue("signature.certificateChain", root, "certificates: PEM, or bytes in DER");
    const bytes = copyOf(root);
    // Programs write certificates in PEM to files.
    return bytes[0] === SEQUENCE ? [bytes] : certificatesIn(new TextDecoder().decode(bytes));
  });
  if (roots.length === 0) throw invalid("`signature.certificateChain` is an empty list");
  return roots;
}

/** The first byte of a certificate in DER. */
const SEQUENCE = 0x30;

/** @param {string} text */
function certificatesIn(text) {
  const found = readPem("certificateChain", () => PemCertificates.parse(text));
  try {
    return Array.from({ length: found.length }, (_, at) => found.certificate(at)).filter((der) => der !== undefined);
  } finally {
    found.free();
  }
}

/**
 * @template T
 * @param {"publicKey" | "certificateChain"} option
 * @param {() => T} read
 */
function readPem(option, read) {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const { what, advice, isOfTrust } = error;
    error.free();
    throw invalid(`\`signature.${option}\`: ${what}. ${isOfTrust ? OTHER[option] : advice}`);
  }
}

/** What to do if the other kind of trust is needed. */
export const OTHER = {
  publicKey: "Pass the certificate of the root as `signature.certificateChain` instead of `publicKey`.",
  certificateChain: "Pass the public key as `signature.publicKey` instead of `certificateChain`.",
};

/** @param {BufferSource} bytes */
const copyOf = (bytes) =>
  ArrayBuffer.isView(bytes)
    ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength).slice()
    : new Uint8Array(bytes.slice(0));

/** @param {unknown} value */
const isBytes = (value) =>
  ArrayBuffer.isView(value) || Object.prototype.toString.call(value) === "[object ArrayBuffer]";
