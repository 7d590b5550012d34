/**
 * Lets a service worker verify `signature.certificateChain`: import it in the script of the worker, because service
 * workers cannot load scripts later. In all other contexts it is loaded when it is needed.
 *
 * ```js
 * import "weightstream/certificates";
 * ```
 *
 * @module weightstream/certificates
 */
export {};
