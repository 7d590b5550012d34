// @ts-check
// Verifies the certificates of signers. A module of its own checks the chain, WebCrypto its signatures. Both are loaded
// only for models that are opened with `signature.certificateChain`.
import { Chain, Refusal, moduleGzip, start } from "./weightstream.certificates_module.js";
import { fail } from "../loader/error.js";
import { onDemand } from "../module/on_demand.js";

/** @import { Unverified } from "./weightstream.certificates_module.js" */

/** Each round verifies at least one link of each path, and paths have fewer certificates than this. */
const MAX_ROUNDS = 16;

/** The sizes of RSA keys that are accepted natively. */
const MIN_RSA_BITS = 2048;
const MAX_RSA_BITS = 8192;

/** The bytes of a hash, which is how much salt RSA-PSS must have. */
const HASH_BYTES = /** @type {Record<string, number>} */ ({ "SHA-256": 32, "SHA-384": 48, "SHA-512": 64 });

const run = onDemand({ gzip: moduleGzip }, start, "verifies certificates");

/**
 * Verifies a chain of certificates, and returns the key of the signer as a SubjectPublicKeyInfo.
 *
 * @param {Uint8Array[]} certificates That of the signer, then those that issued it.
 * @param {Uint8Array[]} roots
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export const signerKey = (certificates, roots) =>
  run(async (own) => {
    const chain = own(new Chain());
    for (const root of roots) chain.addRoot(root);
    for (const certificate of certificates) chain.add(certificate);
    try {
      return await verified(chain);
    } catch (error) {
      throw error instanceof Refusal ? refused(own(error)) : error;
    }
  });

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
  if (!signature || modulusLength < MIN_RSA_BITS || modulusLength > MAX_RSA_BITS) return false;
  return subtle.verify({ name, hash, saltLength: HASH_BYTES[hash] ?? 0 }, imported, signature, message);
}

/** @param {Refusal} refusal */
function refused({ isOfRoot, message }) {
  if (isOfRoot) return fail({ code: "INVALID_ARGUMENT", message: `\`signature.certificateChain\`: ${message}.` });
  const advice = "Do not use the model: get it again, and the root certificate, from where its publisher offers them.";
  return fail({ code: "SIGNATURE", message: `${message}. ${advice}` });
}
