// @ts-check
// Sentences that pass through the layers of the model together.

/** @import { OrtTensor, Runtime, Session } from "./runtime.js" */

// The model was trained with sentences of up to 256 tokens.
const MAX_TOKENS = 256;

export class Batch {
  #runtime;
  #rows;
  /** The inputs of the next session, by name. @type {Record<string, OrtTensor>} */
  #inputs;

  /**
   * @param {Runtime} runtime
   * @param {readonly string[]} texts
   */
  constructor(runtime, texts) {
    const rows = texts.map((text) => tokensOf(runtime, text));
    const length = Math.max(...rows.map((row) => row.length));
    const tensor = (/** @type {(row: number[], at: number) => number} */ value) => {
      const values = rows.flatMap((row) => Array.from({ length }, (_, at) => BigInt(value(row, at))));
      return new runtime.ort.Tensor("int64", BigInt64Array.from(values), [rows.length, length]);
    };
    this.#runtime = runtime;
    this.#rows = rows;
    this.#inputs = {
      input_ids: tensor((row, at) => row[at] ?? 0),
      attention_mask: tensor((row, at) => (at < row.length ? 1 : 0)),
      token_type_ids: tensor(() => 0),
    };
  }

  /** The tokens of each text. */
  get tokens() {
    return this.#rows;
  }

  /**
   * Computes the embeddings of the tokens, or the next layer.
   *
   * @param {Session} session
   */
  async advance(session) {
    this.#inputs.hidden = await this.#run(session);
  }

  /** Returns the embedding of each text after the last layer. Its length as a vector is 1. */
  async finish() {
    const { data, dims } = await this.#run(this.#runtime.pooling);
    const width = dims[1];
    return this.#rows.map((_, row) => data.slice(row * width, (row + 1) * width));
  }

  /** @param {Session} session */
  async #run(session) {
    const inputs = Object.fromEntries(session.inputNames.map((name) => [name, this.#inputs[name]]));
    return (await session.run(inputs))[session.outputNames[0]];
  }
}

/**
 * @param {Runtime} runtime
 * @param {string} text
 */
function tokensOf({ tokenizer }, text) {
  const { ids } = tokenizer.encode(text);
  // The last token marks the end of the text.
  return ids.length > MAX_TOKENS ? [...ids.slice(0, MAX_TOKENS - 1), ...ids.slice(-1)] : ids;
}

/**
 * The cosine of the angle between two vectors of length 1.
 *
 * @param {Float32Array} a
 * @param {Float32Array} b
 */
export const similarity = (a, b) => a.reduce((sum, value, at) => sum + value * b[at], 0);
