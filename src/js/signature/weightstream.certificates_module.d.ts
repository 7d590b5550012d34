// The build writes weightstream.certificates_module.js from the crate in `certificates/`.

import type { ModuleSource } from "../weightstream.js";

/** The WebAssembly module, compressed with gzip, in Base64. */
export const moduleGzip: string;

/** Starts the module. */
export function start(parts: { module_or_path: ModuleSource }): Promise<unknown>;

/** A chain of certificates that is being verified. */
export class Chain {
  constructor();
  /** Adds a trusted root in DER. */
  addRoot(der: Uint8Array): void;
  /** Adds the certificate of the signer in DER, then those that issued it. */
  add(der: Uint8Array): void;
  /** The signer's key in DER; `undefined` if signatures must be verified first. Throws a `Refusal`. */
  verify(): Uint8Array<ArrayBuffer> | undefined;
  /** The next signature to verify. */
  unverified(): Unverified | undefined;
  /** Sets the result of a signature. */
  set(number: number, isValid: boolean): void;
  free(): void;
}

/** A signature that the chain depends on, in the terms of WebCrypto. */
export interface Unverified {
  readonly number: number;
  readonly algorithm: string;
  readonly curve: string;
  readonly hash: string;
  readonly key: Uint8Array<ArrayBuffer>;
  readonly message: Uint8Array<ArrayBuffer>;
  /** Undefined if the bytes are not a signature of the algorithm. */
  readonly signature: Uint8Array<ArrayBuffer> | undefined;
  free(): void;
}

/** Why certificates are refused. */
export class Refusal {
  private constructor();
  /** Whether a root is the reason, which the caller has passed. */
  readonly isOfRoot: boolean;
  readonly message: string;
  free(): void;
}
