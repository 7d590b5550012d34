// @ts-check
// Verifies the signature of a model (OpenSSF Model Signing) with WebCrypto. The module then compares every file with
// the digests that the signature states. Loaded only for models that are opened with the option `signature`.
import { check } from "./weightstream.check.js";
import { rawSignature } from "./weightstream.ecdsa.js";
import { LoadError, fail, invalid } from "./weightstream.error.js";
import { openFile } from "./weightstream.file.js";
import { messageOf } from "./weightstream.guard.js";
import { options, string } from "./weightstream.options.js";
import { requestPolicy } from "./weightstream.request_policy.js";
import { curveOf, decoded, importedKey, rootsOf } from "./weightstream.trust.js";
import { urlOf } from "./weightstream.url.js";

/** @import { CheckedSignature } from "./weightstream_glue.js" */

/** The maximum length of a bundle, which has about 200 bytes per file. */
const MAX_BUNDLE_BYTES = 64 << 20;

const MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json";
const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const STATEMENT_TYPE = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE = "https://model_signing/signature/v1.0";

const SIGNATURE = options({
  url: urlOf,
  publicKey: check((value) => typeof value === "string" || (typeof value === "object" && value !== null),
    "a public key: PEM, JWK, a CryptoKey, or the bytes of a SubjectPublicKeyInfo"),
  path: string,
  certificateChain: (value) => value,
});

/** @typedef {(bundle: any) => Promise<CryptoKey>} Trust Returns the key that must have signed a bundle. */

/** @type {typeof import("./weightstream.chain.js") | undefined} */
let certificates;

/**
 * Sets the script that verifies certificates, where it cannot be loaded later.
 *
 * @param {typeof import("./weightstream.chain.js")} given
 */
export function provideCertificates(given) {
  certificates = given;
}

/**
 * Checks the option `signature`.
 *
 * @param {unknown} given
 */
export function checkedSignature(given) {
  const { url, publicKey, certificateChain, path } = SIGNATURE(given, "signature");
  if (url === undefined) throw invalid("`signature.url` is missing");
  if ((publicKey === undefined) === (certificateChain === undefined)) {
    throw invalid("`signature` must have either `publicKey` or `certificateChain`: a signature proves nothing unless " +
      "the app states whom it trusts");
  }
  return { url, publicKey, path, roots: certificateChain === undefined ? undefined : rootsOf(certificateChain) };
}

/**
 * Verifies a signature, and returns the digests that the files of the model must have.
 *
 * @param {unknown} given The option `signature`.
 * @param {unknown} source What is opened.
 * @param {Record<string, any>} how The options of requests.
 * @returns {Promise<CheckedSignature>}
 */
export async function verifiedSignature(given, source, how) {
  const { url, publicKey, path, roots } = checkedSignature(given);
  if (!globalThis.crypto?.subtle) {
    const what = "signatures need WebCrypto, which this context does not have";
    throw unsupported(what, "Serve the page over https or from localhost.");
  }
  const trust = roots ? trustIn(roots) : trustInKey(await importedKey(publicKey));
  try {
    const statement = await statementOf(parsed(await requested(url, source, how)), trust);
    return { path: path ?? pathBelow(url, source), files: await filesOf(statement) };
  } catch (error) {
    if (!(error instanceof LoadError) || error.url !== undefined || error.code === "INVALID_ARGUMENT") throw error;
    throw fail({ code: error.code, message: `${url}: ${error.message}`, url, cause: error.cause });
  }
}

/**
 * @param {CryptoKey} key
 * @returns {Trust}
 */
const trustInKey = (key) => async ({ verificationMaterial }) => {
  if (verificationMaterial?.x509CertificateChain === undefined) return key;
  throw wrongTrust("the model is signed with a certificate, not with a key", "the certificate of the root as " +
    "`signature.certificateChain` instead of `publicKey`");
};

/**
 * @param {Uint8Array[]} roots
 * @returns {Trust}
 */
const trustIn = (roots) => async ({ verificationMaterial }) => {
  const { publicKey, x509CertificateChain } = verificationMaterial ?? {};
  const chain = x509CertificateChain?.certificates;
  if (publicKey !== undefined || !Array.isArray(chain)) {
    throw wrongTrust("the model is signed with a key, not with a certificate", "the public key as " +
      "`signature.publicKey` instead of `certificateChain`");
  }
  const key = await (await loadCertificates()).signerKey(chain.map((given) => bytesIn(given?.rawBytes)), roots);
  const imported = await importedKey(key).catch(() => undefined);
  if (imported) return imported;
  const what = "the key of the signer's certificate is not for ECDSA with P-256, P-384 or P-521";
  throw unsupported(what, "Sign the model with a certificate for such a key.");
};

async function loadCertificates() {
  try {
    return (certificates ??= await import("./weightstream.chain.js"));
  } catch (cause) {
    const message = `weightstream.chain.js cannot be loaded: ${messageOf(cause)}. Serve all files of the ` +
      'package. In a service worker, add `import "weightstream/certificates"` to its script.';
    throw fail({ code: "UNSUPPORTED", message, cause });
  }
}

/**
 * @param {string} what
 * @param {string} advice
 */
const wrongTrust = (what, advice) => fail({ code: "SIGNATURE", message: `${what}. Pass ${advice}.` });

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
  const sent = typeof source === "string" ? requestPolicy({ headers, credentials }, source)(url) : {};
  const file = await openFile(url, {
    fetch, cache, cacheKey, retry, signal, ...sent,
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
 * @param {Trust} trust
 */
async function statementOf(bundle, trust) {
  if (bundle?.mediaType !== MEDIA_TYPE) throw wrong("the file is not a Sigstore bundle of version 0.3");
  const { tlogEntries, certificate } = bundle.verificationMaterial ?? {};
  if (tlogEntries?.length > 0 || certificate !== undefined) {
    const what = "the model is signed in Sigstore's keyless mode, which is not supported";
    throw unsupported(what, "Sign the model with a key or a certificate.");
  }
  const key = await trust(bundle);
  const { payloadType, payload, signatures } = bundle.dsseEnvelope ?? {};
  if (payloadType !== PAYLOAD_TYPE) throw wrong("the signature is not over an in-toto statement");
  if (!Array.isArray(signatures) || signatures.length !== 1) throw wrong("the bundle does not have one signature");
  const signed = bytesIn(payload);
  const { hash, length } = curveOf(key);
  const signature = rawSignature(bytesIn(signatures[0]?.sig), length);
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

/**
 * The bytes of a field in Base64.
 *
 * @param {unknown} text
 */
function bytesIn(text) {
  const bytes = decoded(String(text));
  if (bytes) return bytes;
  throw wrong("the signature contains invalid base64");
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
