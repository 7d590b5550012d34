// @ts-check
// Verifies the certificates of signers. A module of its own checks the chain, WebCrypto its signatures. Both are loaded
// only for models that are opened with `signature.certificateChain`.
import { Chain, Refusal, moduleGzip, start } from "./weightstream.certificates_module.js";
import { CURVES, rawSignature } from "./weightstream.ecdsa.js";
import { LoadError, fail } from "./weightstream.error.js";
import { messageOf } from "./weightstream.guard.js";

/** @import { Unverified } from "./weightstream.certificates_module.js" */

/** Each round verifies at least one link of each path, and paths have fewer certificates than this. */
const MAX_ROUNDS = 16;

/** The sizes of RSA keys that are accepted natively. */
const MIN_RSA_BITS = 2048;
const MAX_RSA_BITS = 8192;

/** The bytes of a hash, which is how much salt RSA-PSS must have. */
const HASH_BYTES = /** @type {Record<string, number>} */ ({ "SHA-256": 32, "SHA-384": 48, "SHA-512": 64 });

/** @type {Promise<unknown> | undefined} */
let starting;

/** @type {unknown} The exception with which the module crashed. It is not entered again. */
let crash;

/**
 * Verifies a chain of certificates, and returns the key of the signer as a SubjectPublicKeyInfo.
 *
 * @param {Uint8Array[]} certificates That of the signer, then those that issued it.
 * @param {Uint8Array[]} roots
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function signerKey(certificates, roots) {
  starting ??= startModule().catch((cause) => {
    starting = undefined; // so that a later call can succeed
    const message = `The module that verifies certificates could not be started: ${messageOf(cause)}`;
    throw fail({ code: "INTERNAL", message, cause });
  });
  await starting;
  /** @type {Chain | undefined} */
  let chain;
  try {
    if (crash) throw crash;
    chain = new Chain();
    for (const root of roots) chain.addRoot(root);
    for (const certificate of certificates) chain.add(certificate);
    return await verified(chain);
  } catch (error) {
    if (error instanceof Refusal) throw refused(error);
    if (error instanceof LoadError) throw error;
    crash = error;
    const what = `The module that verifies certificates crashed: ${messageOf(error)}`;
    throw fail({ code: "INTERNAL", message: `${what}. Reload the page, and report this.`, cause: error });
  } finally {
    if (!crash) chain?.free();
  }
}

async function startModule() {
  const packed = Uint8Array.from(atob(moduleGzip), (character) => character.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  await start({ module_or_path: await new Response(unpacked).arrayBuffer() });
}

/** @param {Chain} chain */
async function verified(chain) {
  /** @type {Set<string>} */
  const missing = new Set();
  for (let round = 0; round < MAX_ROUNDS; round++) {
    try {
      const key = chain.verify();
      if (key) return key;
    } catch (error) {
      if (missing.size === 0 || !(error instanceof Refusal)) throw error;
      error.free();
      const message = `this browser cannot verify ${[...missing].join(" and ")} signatures, which the certificates ` +
        "have. Sign the model with certificates that have ECDSA signatures.";
      throw fail({ code: "UNSUPPORTED", message });
    }
    for (let found; (found = chain.unverified());) {
      const isValid = await isSignatureValid(found).catch((error) => {
        if (error?.name === "NotSupportedError") missing.add(String(found?.algorithm));
        return false;
      });
      chain.set(found.number, isValid);
      found.free();
    }
  }
  throw fail({ code: "SIGNATURE", message: "the certificates of the signature have too many paths to a root." });
}

/**
 * Rejects if WebCrypto does not accept the key, or does not know the algorithm.
 *
 * @param {Unverified} found
 * @returns {Promise<boolean>}
 */
async function isSignatureValid({ algorithm: name, curve, hash, key, message, signature }) {
  const { subtle } = crypto;
  const parameters = name === "ECDSA" ? { name, namedCurve: curve } : name === "Ed25519" ? { name } : { name, hash };
  const imported = await subtle.importKey("spki", key, parameters, false, ["verify"]);
  const { modulusLength = MIN_RSA_BITS } = /** @type {Partial<RsaKeyAlgorithm>} */ (imported.algorithm);
  if (modulusLength < MIN_RSA_BITS || modulusLength > MAX_RSA_BITS) return false;
  if (name !== "ECDSA") return subtle.verify({ name, saltLength: HASH_BYTES[hash] ?? 0 }, imported, signature, message);
  const raw = rawSignature(signature, CURVES[curve]?.length ?? 0);
  return raw !== undefined && subtle.verify({ name, hash }, imported, raw, message);
}

/** @param {Refusal} refusal */
function refused(refusal) {
  const { isOfRoot, message } = refusal;
  refusal.free();
  if (isOfRoot) return fail({ code: "INVALID_ARGUMENT", message: `\`signature.certificateChain\`: ${message}.` });
  const advice = "Do not use the model: get it again, and the root certificate, from where its publisher offers them.";
  return fail({ code: "SIGNATURE", message: `${message}. ${advice}` });
}
