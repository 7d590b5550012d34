// @ts-check
// What a load has verified, in words.

/** @import { Verified } from "./pkg/weightstream.js" */

/** @typedef {Exclude<Verified, null>} Algorithm */

/** @type {Record<Algorithm, string>} */
const NAMES = { crc32: "CRC-32", crc32c: "CRC-32C", xxh3: "XXH3", sha256: "SHA-256", blake3: "BLAKE3" };

/** @param {Algorithm} algorithm */
export const nameOf = (algorithm) => NAMES[algorithm] ?? algorithm;

/**
 * `4 of 4 files match CRC-32.`, after a load of all tensors, which fails if a checksum does not match.
 *
 * @param {{ verified: Verified }[]} tensors
 * @param {number} files
 * @param {Algorithm | undefined} whole The algorithm that has verified the whole model.
 */
export function checkedSentence(tensors, files, whole) {
  /** @type {Map<Algorithm, number>} */
  const counts = new Map();
  for (const { verified } of tensors) if (verified) counts.set(verified, (counts.get(verified) ?? 0) + 1);
  if (counts.size === 0) {
    return whole ? `${matching(files, files, "file", whole)}.` : "These files have no checksums to compare.";
  }
  const matches = [...counts].map(([algorithm, count]) => matching(count, tensors.length, "tensor", algorithm));
  return `${matches.join("; ")}.`;
}

/**
 * @param {number} count
 * @param {number} total
 * @param {string} noun
 * @param {Algorithm} algorithm
 */
function matching(count, total, noun, algorithm) {
  const nouns = total === 1 ? noun : `${noun}s`;
  return `${count} of ${total} ${nouns} ${count === 1 ? "matches" : "match"} ${nameOf(algorithm)}`;
}
