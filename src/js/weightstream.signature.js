// @ts-check
// Verifies the signature of a model (OpenSSF Model Signing) with WebCrypto. The module then compares every file with
// the digests that the signature states. Loaded only for models that are opened with the option `signature`.
import { check, invalidValue } from "./weightstream.check.js";
import { LoadError, fail, invalid } from "./weightstream.error.js";
import { openFile } from "./weightstream.file.js";
import { messageOf } from "./weightstream.guard.js";
import { options, string } from "./weightstream.options.js";
import { urlOf } from "./weightstream.url.js";

/** @import { CheckedSignature } from "./weightstream_glue.js" */

/** @typedef {string | JsonWebKey | BufferSource | CryptoKey} PublicKey */

/** The maximum length of a bundle, which has about 200 bytes per file. */
const MAX_BUNDLE_BYTES = 64 << 20;

const MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json";
const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const STATEMENT_TYPE = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE = "https://model_signing/signature/v1.0";

/** The curves of the specification: the hash of each, and the length of a coordinate in bytes. */
const CURVES = /** @type {Record<string, { hash: string, length: number }>} */ ({
  "P-256": { hash: "SHA-256", length: 32 },
  "P-384": { hash: "SHA-384", length: 48 },
  "P-521": { hash: "SHA-512", length: 66 },
});

const SIGNATURE = options({
  url: urlOf,
  publicKey: check((value) => typeof value === "string" || (typeof value === "object" && value !== null),
    "a public key: PEM, JWK, a CryptoKey, or the bytes of a SubjectPublicKeyInfo"),
  path: string,
  certificateChain: () => {
    throw fail({
      code: "UNSUPPORTED",
      message: "`signature.certificateChain`: certificates cannot be verified in a browser. Sign the model with a " +
        "key, or verify it with `weightstream verify --certificate-chain`.",
    });
  },
});

/**
 * Verifies a signature, and returns the digests that the files of the model must have.
 *
 * @param {unknown} given The option `signature`.
 * @param {unknown} source What is opened.
 * @param {Record<string, any>} how The options of requests.
 * @returns {Promise<CheckedSignature>}
 */
export async function verifiedSignature(given, source, how) {
  const { url, publicKey, path } = SIGNATURE(given, "signature");
  if (url === undefined) throw invalid("`signature.url` is missing");
  if (publicKey === undefined) throw invalid("`signature.publicKey` is missing: a signature says nothing without it");
  const key = await imported(publicKey);
  try {
    const statement = await statementOf(parsed(await requested(url, source, how)), key);
    return { path: path ?? pathBelow(url, source), files: await filesOf(statement) };
  } catch (error) {
    if (!(error instanceof LoadError) || error.url !== undefined) throw error;
    throw fail({ code: error.code, message: `${url}: ${error.message}`, url, cause: error.cause });
  }
}

/** @param {string} what */
const wrong = (what) => fail({
  code: "SIGNATURE",
  message: `${what}. Do not use the model: get it again, and the key, from where its publisher offers them.`,
});

/**
 * @param {string} what
 * @param {string} advice
 */
const unsupported = (what, advice) => fail({ code: "UNSUPPORTED", message: `${what}. ${advice}` });

const SIGN_ADVICE = "Sign the model with `weightstream sign` or model-signing.";

/**
 * Headers and credentials are those of the origin of the model.
 *
 * @param {string} url
 * @param {unknown} source
 * @param {Record<string, any>} how
 */
async function requested(url, source, { fetch, headers, credentials, cache, cacheKey, retry, hub, signal }) {
  const isSameOrigin = typeof source === "string" && originOf(source) === originOf(url);
  const file = await openFile(url, {
    fetch, cache, cacheKey, retry, signal, ...(isSameOrigin && { headers, credentials }),
    hub: hub?.endpoint === "" ? null : hub, // as the caller has passed it
  });
  try {
    const bytes = await file.bytes(0, MAX_BUNDLE_BYTES + 1, { signal });
    if (bytes.length <= MAX_BUNDLE_BYTES) return bytes;
    throw fail({ code: "LIMIT", message: `The signature has more than ${MAX_BUNDLE_BYTES >> 20} MiB.` });
  } finally {
    file.close();
  }
}

/** @param {string} url */
function originOf(url) {
  const { protocol, host } = new URL(url);
  return `${protocol}//${host}`;
}

/** @param {Uint8Array} bytes */
function parsed(bytes) {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw wrong(`the signature is not JSON (${messageOf(cause)})`);
  }
}

/**
 * The statement of a bundle whose signature is valid.
 *
 * @param {any} bundle
 * @param {CryptoKey} key
 */
async function statementOf(bundle, key) {
  if (bundle?.mediaType !== MEDIA_TYPE) throw wrong("the file is not a Sigstore bundle of version 0.3");
  const { tlogEntries, certificate, x509CertificateChain } = bundle.verificationMaterial ?? {};
  if (tlogEntries?.length > 0 || certificate !== undefined) {
    const what = "the model is signed in Sigstore's keyless mode, which is not supported";
    throw unsupported(what, "Sign the model with a key.");
  }
  if (x509CertificateChain !== undefined) {
    throw unsupported("the model is signed with a certificate, not with a key", "Sign the model with a key.");
  }
  const { payloadType, payload, signatures } = bundle.dsseEnvelope ?? {};
  if (payloadType !== PAYLOAD_TYPE) throw wrong("the signature is not over an in-toto statement");
  if (!Array.isArray(signatures) || signatures.length !== 1) throw wrong("the bundle does not have one signature");
  const signed = decoded(payload);
  const { hash, length } = curveOf(key);
  const signature = rawSignature(decoded(signatures[0]?.sig), length);
  // The pre-authentication encoding of DSSE.
  const head = new TextEncoder().encode(`DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${signed.length} `);
  const message = new Uint8Array(head.length + signed.length);
  message.set(head);
  message.set(signed, head.length);
  const isValid = signature && (await crypto.subtle.verify({ name: "ECDSA", hash }, key, signature, message));
  if (!isValid) throw wrong("the signature was not made by this key, or the signed statement was changed");
  return parsed(signed);
}

/**
 * The digests that a statement lists. The module refuses names that leave the folder or are listed twice.
 *
 * @param {any} statement
 * @returns {Promise<CheckedSignature["files"]>}
 */
async function filesOf({ _type, predicateType, subject, predicate }) {
  if (_type !== STATEMENT_TYPE || predicateType !== PREDICATE_TYPE) {
    throw unsupported(`the signed statement is of type "${_type}" with "${predicateType}"`, SIGN_ADVICE);
  }
  const { serialization, resources } = predicate ?? {};
  const isInPieces = serialization?.method === "shards";
  if (!isInPieces && serialization?.method !== "files") {
    throw unsupported(`the signature lists "${serialization?.method}" rather than files or shards`, SIGN_ADVICE);
  }
  if (!Array.isArray(resources) || !Array.isArray(subject) || subject.length !== 1) {
    throw wrong("the signed statement is not about exactly one model");
  }
  const files = resources.map((resource) => fileOf(resource, isInPieces));
  const root = new Uint8Array(files.length * 32);
  files.forEach(({ hex }, at) => root.set(bytesOf(hex), at * 32));
  const rootHex = Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", root)), hexOf).join("");
  if (subject[0]?.digest?.sha256 !== rootHex) {
    throw wrong("the digest of the model in the signature is not that of its list of files");
  }
  return files.map(({ file }) => file);
}

/**
 * @param {any} resource
 * @param {boolean} isInPieces
 * @returns {{ file: CheckedSignature["files"][0], hex: string }}
 */
function fileOf({ name, algorithm, digest: hex }, isInPieces) {
  const [known] = /^(sha256|blake3)(?=$|-sharded-\d+$)/.exec(algorithm) ?? [];
  if (!known) {
    const advice = "Sign the model with SHA-256, which is the default, or with BLAKE3.";
    throw unsupported(`the signature has digests of "${algorithm}"`, advice);
  }
  if (typeof name !== "string" || !/^[0-9a-f]{64}$/.test(hex)) throw wrong(`the signature has the digest "${hex}"`);
  const digest = `${known}:${hex}`;
  if (!isInPieces) return { file: [name, digest], hex };
  const [, path, start, end] = /^(.*):(\d+):(\d+)$/s.exec(name) ?? [];
  if (path === undefined) throw wrong(`the signature lists "${name}", which is no shard`);
  return { file: [path, digest, Number(start), Number(end)], hex };
}

/** @param {number} byte */
const hexOf = (byte) => byte.toString(16).padStart(2, "0");

/** @param {string} hex */
const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (byte) => parseInt(byte, 16));

/** @param {unknown} text */
function decoded(text) {
  try {
    return Uint8Array.from(atob(String(text)), (char) => char.charCodeAt(0));
  } catch {
    throw wrong("the signature contains invalid base64");
  }
}

/**
 * An ECDSA signature as WebCrypto takes it: two numbers of equal length. DER, in which it is stored, is a sequence
 * of two integers without leading zeros. Undefined for anything else.
 *
 * @param {Uint8Array} der
 * @param {number} length
 */
function rawSignature(der, length) {
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

/** @param {CryptoKey} key */
function curveOf({ algorithm }) {
  const { namedCurve = "" } = /** @type {EcKeyAlgorithm} */ (algorithm);
  const curve = algorithm.name === "ECDSA" ? CURVES[namedCurve] : undefined;
  if (curve) return curve;
  throw invalid("`signature.publicKey` is not a key for ECDSA with P-256, P-384 or P-521");
}

/**
 * @param {PublicKey} key
 * @returns {Promise<CryptoKey>}
 */
async function imported(key) {
  if (!globalThis.crypto?.subtle) {
    const what = "signatures need WebCrypto, which this context does not have";
    throw unsupported(what, "Serve the page over https or from localhost.");
  }
  if (Object.prototype.toString.call(key) === "[object CryptoKey]") {
    const given = /** @type {CryptoKey} */ (key);
    curveOf(given);
    if (!given.usages.includes("verify")) throw invalid('`signature.publicKey` is a CryptoKey without "verify"');
    return given;
  }
  const bytes = typeof key === "string" ? pemBytes(key) : key;
  const isBytes = ArrayBuffer.isView(bytes) || Object.prototype.toString.call(bytes) === "[object ArrayBuffer]";
  // Of a JWK, only what makes a public key: other fields may restrict its use.
  const { kty, crv, x, y } = /** @type {JsonWebKey} */ (bytes);
  const curves = isBytes ? Object.keys(CURVES) : Object.keys(CURVES).filter((curve) => curve === crv);
  for (const namedCurve of curves) {
    const algorithm = { name: "ECDSA", namedCurve };
    const importing = isBytes
      ? crypto.subtle.importKey("spki", /** @type {BufferSource} */ (bytes), algorithm, false, ["verify"])
      : crypto.subtle.importKey("jwk", /** @type {JsonWebKey} */ ({ kty, crv, x, y }), algorithm, false, ["verify"]);
    const found = await importing.catch(() => undefined); // a key of another curve
    if (found) return found;
  }
  throw invalidValue("signature.publicKey", isBytes ? "bytes" : "an object",
    "a public key for ECDSA with P-256, P-384 or P-521");
}

/** @param {string} text */
function pemBytes(text) {
  if (/PRIVATE KEY-----/.test(text)) {
    throw invalid("`signature.publicKey` is a private key, which must not be in a page: pass its public key");
  }
  const [, base64 = ""] = /-----BEGIN PUBLIC KEY-----([^-]*)-----END PUBLIC KEY-----/.exec(text) ?? [];
  if (base64 === "") throw invalid("`signature.publicKey` has no PEM block \"PUBLIC KEY\"");
  return decoded(base64);
}

/**
 * The path of a URL relative to the folder of the signature, if it is below it.
 *
 * @param {string} signature
 * @param {unknown} source
 */
function pathBelow(signature, source) {
  if (typeof source !== "string") return undefined;
  const [folder = ""] = /^[^?#]*\//.exec(signature) ?? [];
  const [path = ""] = /^[^?#]*/.exec(source) ?? [];
  try {
    return folder !== "" && path.startsWith(folder) ? decodeURIComponent(path.slice(folder.length)) : undefined;
  } catch {
    return undefined; // not valid UTF-8
  }
}
