// @ts-check
// Verifies the signature of a model (OpenSSF Model Signing). A module of its own parses it and decides what is
// acceptable, with the code that also runs natively; WebCrypto verifies it. The main module then compares every file
// with the digests that the signature states. Loaded only for models that are opened with the option `signature`.
import { check } from "../options/check.js";
import { LoadError, fail, invalid } from "../loader/error.js";
import { openFile } from "../file/file.js";
import { laterScript } from "../module/later.js";
import { onDemand } from "../module/on_demand.js";
import { options, string } from "../options/options.js";
import { requestPolicy } from "../request/request_policy.js";
import { Bundle, Refusal, moduleGzip, start } from "./weightstream.signatures_module.js";
import { OTHER, curveOf, exportedKey, importedKey, rootsOf } from "./trust.js";
import { urlOf } from "../source/url.js";

/** @import { Statement } from "./weightstream.signatures_module.js" */
/** @import { CheckedSignature } from "../module/glue.js" */

const SIGNATURE = options({
  url: urlOf,
  publicKey: check((value) => typeof value === "string" || (typeof value === "object" && value !== null),
    "a public key: PEM, JWK, a CryptoKey, or the bytes of a SubjectPublicKeyInfo"),
  path: string,
  certificateChain: (value) => value,
});

/** @typedef {{ key: CryptoKey } | { roots: Uint8Array[] }} Trust */

/** @type {import("../module/on_demand.js").Source} */
export const moduleSource = { gzip: moduleGzip };

const run = onDemand(moduleSource, start, "verifies signatures");

/** Verifies certificates. */
export const certificatesScript = laterScript(
  "weightstream.chain.js",
  () => import("./chain.js"),
  'must import "weightstream/certificates"',
);

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
  return { url, publicKey, path, certificateChain };
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
  const { url, publicKey, path, certificateChain } = checkedSignature(given);
  if (!globalThis.crypto?.subtle) {
    const what = "signatures need WebCrypto, which this context does not have";
    throw unsupported(what, "Serve the page over https or from localhost.");
  }
  try {
    const files = await run(async (own) => {
      const trust =
        publicKey === undefined ? { roots: rootsOf(certificateChain) } : { key: await importedKey(publicKey) };
      const bytes = await requested(url, source, how, Bundle.maxBytes());
      try {
        const bundle = own(Bundle.parse(bytes));
        return filesOf(own(bundle.statement(await isSigned(bundle, trust))));
      } catch (error) {
        throw error instanceof Refusal ? refused(own(error), trust) : error;
      }
    });
    return { url, path, files };
  } catch (error) {
    if (!(error instanceof LoadError) || error.url !== undefined || error.code === "INVALID_ARGUMENT") throw error;
    throw fail({ code: error.code, message: `${url}: ${error.message}`, url, cause: error.cause });
  }
}

/**
 * Whether a bundle is signed by whom the caller trusts.
 *
 * @param {Bundle} bundle
 * @param {Trust} trust
 */
async function isSigned(bundle, trust) {
  const key = "key" in trust ? trust.key : await certifiedKey(bundle, trust.roots);
  if ("key" in trust) bundle.checkKey(await exportedKey(key));
  const curve = curveOf(key);
  const hash = Bundle.hash(curve);
  const signature = bundle.signature(curve);
  if (hash === undefined || signature === undefined) return false;
  return crypto.subtle.verify({ name: "ECDSA", hash }, key, signature, bundle.message());
}

/**
 * @param {Statement} statement
 * @returns {CheckedSignature["files"]}
 */
const filesOf = (statement) =>
  Array.from({ length: statement.length }, (_, at) => [
    statement.path(at) ?? "", statement.digest(at) ?? "", statement.start(at), statement.end(at),
  ]);

/**
 * The key of the signer's certificate.
 *
 * @param {Bundle} bundle
 * @param {Uint8Array[]} roots
 */
async function certifiedKey(bundle, roots) {
  const certificates = Array.from({ length: bundle.countCertificates() }, (_, at) => bundle.certificate(at));
  const chain = certificates.filter((certificate) => certificate !== undefined);
  const key = await (await certificatesScript.load()).signerKey(chain, roots);
  const imported = await importedKey(key).catch(() => undefined);
  if (imported) return imported;
  const what = "the key of the signer's certificate is not for ECDSA on one of the curves P-256, P-384 and P-521";
  throw unsupported(what, "Sign the model with a certificate for such a key.");
}

/**
 * @param {Refusal} refusal
 * @param {Trust} trust
 */
function refused({ code, what, advice, isOfTrust }, trust) {
  const other = OTHER["key" in trust ? "publicKey" : "certificateChain"];
  return fail({ code, message: `${what}. ${isOfTrust ? other : advice}` });
}

/**
 * @param {string} what
 * @param {string} advice
 */
const unsupported = (what, advice) => fail({ code: "UNSUPPORTED", message: `${what}. ${advice}` });

/**
 * Headers and credentials are those of the origin of the model.
 *
 * @param {string} url
 * @param {unknown} source
 * @param {Record<string, any>} how
 * @param {number} maxBytes Of a longer file, one byte more is read.
 */
async function requested(url, source, { fetch, headers, credentials, cache, cacheKey, retry, hub, signal }, maxBytes) {
  const sent = typeof source === "string" ? requestPolicy({ headers, credentials }, source)(url) : {};
  const file = await openFile(url, {
    fetch, cache, cacheKey, retry, signal, ...sent,
    hub: hub?.endpoint === "" ? null : hub, // as the caller has passed it
  });
  try {
    return await file.bytes(0, maxBytes + 1, { signal });
  } finally {
    file.close();
  }
}
