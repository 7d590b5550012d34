// @ts-check
// Embeds the sentences of a file, for a headless runner that compares them with a reference.

import { openFile } from "./pkg/weightstream.js";

/** @import { Similarity } from "./similarity.js" */

/**
 * @param {Similarity} similarity
 * @param {string} address A JSON file with `sentences`, each with its `text`.
 */
export async function embedFile(similarity, address) {
  const { first, error } = await similarity.load();
  if (!first) return { ok: false, error: error instanceof Error ? error.message : String(error) };
  const file = await openFile(new URL(address, location.href));
  const { sentences } = /** @type {{ sentences: { text: string }[] }} */ (await file.json());
  file.close();
  const { embeddings, tokens } = await first.embedder.embed(sentences.map(({ text }) => text));
  const { milliseconds, steps, wasStarted, stats } = first;
  return {
    ok: true,
    milliseconds,
    steps,
    wasStarted,
    bytesReceived: stats.bytesReceived,
    bytesFromCache: stats.bytesFromCache,
    sentences: embeddings.map((embedding, at) => ({ embedding: Array.from(embedding), ids: tokens[at] })),
  };
}
