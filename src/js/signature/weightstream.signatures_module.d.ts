// The build writes weightstream.signatures_module.js from the crate in `signatures/`.

import type { ModuleSource } from "../weightstream.js";

/** The WebAssembly module, compressed with gzip, in Base64. */
export const moduleGzip: string;

/** Starts the module. */
export function start(parts: { module_or_path: ModuleSource }): Promise<unknown>;

/** A signature that is being verified. Its functions throw a `Refusal`. */
export class Bundle {
  private constructor();
  /** The maximum length of a bundle. */
  static maxBytes(): number;
  /** The hash function of keys on a curve. */
  static hash(curve: string): string | undefined;
  static parse(bytes: Uint8Array): Bundle;
  /** Checks that the bundle names no other key. `key` is a SubjectPublicKeyInfo in DER. */
  checkKey(key?: Uint8Array): void;
  countCertificates(): number;
  /** A certificate in DER: first that of the signer, then those that issued it. */
  certificate(number: number): Uint8Array<ArrayBuffer> | undefined;
  /** The bytes that the key must have signed. */
  message(): Uint8Array<ArrayBuffer>;
  /** The signature as WebCrypto takes it. Undefined if it is none. */
  signature(curve: string): Uint8Array<ArrayBuffer> | undefined;
  /** What the signature states. `isValid` is the result of verifying the signature of the message. */
  statement(isValid: boolean): Statement;
  free(): void;
}

/** What a signature states: the digests of files, or of pieces of them, by number. */
export interface Statement {
  readonly length: number;
  path(number: number): string | undefined;
  digest(number: number): string | undefined;
  start(number: number): number | undefined;
  /** Undefined for a whole file. */
  end(number: number): number | undefined;
  free(): void;
}

/** The SubjectPublicKeyInfo of the first public key in a text in PEM. Throws a `Refusal`. */
export function publicKeyInPem(text: string): Uint8Array<ArrayBuffer>;

/** The certificates in a text in PEM, in DER, by number. */
export class PemCertificates {
  private constructor();
  /** Throws a `Refusal`. */
  static parse(text: string): PemCertificates;
  readonly length: number;
  certificate(number: number): Uint8Array<ArrayBuffer> | undefined;
  free(): void;
}

/** Why a signature is refused. */
export class Refusal {
  private constructor();
  readonly code: "SIGNATURE" | "UNSUPPORTED" | "LIMIT" | "INVALID_ARGUMENT";
  readonly what: string;
  readonly advice: string;
  /** Whether a key is trusted or given, but a certificate is needed, or the other way round. */
  readonly isOfTrust: boolean;
  free(): void;
}
