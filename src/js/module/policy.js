// @ts-check
// Starts workers under the security policies of a page, and says what to change in a policy that forbids what the
// package needs.

/** @type {{ createScriptURL(url: string): any } | undefined} The Trusted Types policy of the package. */
let policy;

/** @typedef {{ directive: string, blocked: string }} Violation */

/** @type {Violation[] | undefined} What the page's Content-Security-Policy has blocked. */
let violations;

/** Starts to record what the page's Content-Security-Policy blocks. */
export function watchPolicy() {
  if (violations) return;
  /** @type {Violation[]} */
  const recorded = [];
  violations = recorded;
  globalThis.addEventListener?.("securitypolicyviolation", (event) => {
    const { effectiveDirective, blockedURI } = /** @type {SecurityPolicyViolationEvent} */ (event);
    recorded.push({ directive: effectiveDirective, blocked: blockedURI });
  });
}

/**
 * Starts a worker. An error says what the page must allow.
 *
 * @param {string | URL} url
 * @param {WorkerOptions} [options]
 */
export function startWorker(url, options) {
  let worker;
  try {
    worker = new Worker(trusted(String(url)), options);
  } catch (cause) {
    throw new Error(reasonOf(cause, String(url)), { cause });
  }
  worker.addEventListener("error", (event) => explain(worker, event, String(url)));
  return worker;
}

/**
 * The URL for a page that requires Trusted Types.
 *
 * @param {string} url
 */
function trusted(url) {
  const { trustedTypes } = /** @type {any} */ (globalThis);
  try {
    policy ??= trustedTypes?.createPolicy("weightstream", { createScriptURL: (/** @type {string} */ url) => url });
  } catch {
    // The page may allow the name and yet not require Trusted Types. If it does, the constructor of Worker throws.
  }
  return policy?.createScriptURL(url) ?? url;
}

/**
 * @param {unknown} cause
 * @param {string} url
 */
function reasonOf(cause, url) {
  const message = cause instanceof Error ? cause.message : String(cause);
  return [message.replace(/\.?$/, "."), workerAdvice(cause, message, url)].join(" ").trim();
}

/**
 * @param {unknown} cause
 * @param {string} message of the cause
 * @param {string} url
 */
function workerAdvice(cause, message, url) {
  if (/TrustedScriptURL|Sink type mismatch/.test(message)) {
    return "Add `weightstream` to `trusted-types` in the page's Content-Security-Policy.";
  }
  if (!(cause instanceof DOMException) || cause.name !== "SecurityError") return "";
  if (globalThis.origin === "null") return WITHOUT_ORIGIN;
  const { protocol, origin } = new URL(url, location.href);
  if (protocol === "blob:" || origin === location.origin) return allow("worker-src", url);
  return "The script of a worker must have the origin of the page. Serve the package from there, or import " +
    "\"weightstream/inline\".";
}

const WITHOUT_ORIGIN = "A page without an origin, such as an iframe with `sandbox`, may not load the script of a " +
  "worker. Add `allow-same-origin`, or import \"weightstream/inline\".";

/**
 * Browsers do not say why the script of a worker was not loaded. If the page's policy is the reason, the listeners get
 * an event that says so instead.
 *
 * @param {Worker} worker
 * @param {ErrorEvent} event
 * @param {string} url
 */
async function explain(worker, event, url) {
  if (event.message || !event.isTrusted) return;
  event.stopImmediatePropagation();
  event.preventDefault();
  await reported();
  const isForbidden = violations?.some(({ directive }) => /^(worker|child|script)-src/.test(directive));
  const other = globalThis.origin === "null" ? WITHOUT_ORIGIN : offlineAdvice().trim();
  const message = isForbidden ? allow("worker-src", url) : other;
  worker.dispatchEvent(new ErrorEvent("error", { message, cancelable: true }));
}

/** Why a file of the package cannot be loaded, if the browser is offline; otherwise an empty string. */
export const offlineAdvice = () => (globalThis.navigator?.onLine === false
  ? "The browser is offline, and this file of the package was not kept: load it while the browser is online, and " +
    "keep it with a service worker. "
  : "");

/**
 * What to change if the page's policy is why the module cannot be loaded or compiled.
 *
 * @param {string} message of the exception
 */
export async function moduleAdvice(message) {
  if (/wasm-unsafe-eval|unsafe-eval|Content.Security.Policy|\bCSP\b/i.test(message)) {
    return "Add `'wasm-unsafe-eval'` to `script-src` in the page's Content-Security-Policy.";
  }
  await reported();
  const blocked = violations?.find(({ directive }) => directive === "connect-src")?.blocked;
  return blocked && allow("connect-src", blocked);
}

/**
 * What to change if the page's policy has blocked requests to the origin of this URL.
 *
 * @param {string | undefined} url
 */
export function requestAdvice(url) {
  const origin = url && URL.canParse?.(url) ? new URL(url).origin : undefined;
  const isBlocked = violations?.some(({ directive, blocked }) => {
    return directive === "connect-src" && origin !== undefined && blocked.startsWith(origin);
  });
  return isBlocked ? allow("connect-src", String(url)) : undefined;
}

/**
 * Whether the page's policy has blocked requests to the origin of this URL.
 *
 * @param {string} url
 */
export async function isForbidden(url) {
  await reported();
  return requestAdvice(url) !== undefined;
}

/**
 * @param {string} directive
 * @param {string} url
 */
function allow(directive, url) {
  const { protocol, origin } = new URL(url, location.href);
  const source = protocol === "blob:" ? "blob:" : origin === location.origin ? "'self'" : origin;
  return `The page's Content-Security-Policy forbids it: add \`${source}\` to \`${directive}\`.`;
}

/** A violation is reported in a task of its own, which may come after that of the error. */
const reported = () => new Promise((resolve) => setTimeout(resolve));
