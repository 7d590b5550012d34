// @ts-check
// The artifacts of TensorFlow.js for a model that is open, whatever its format.
import { fail } from "../../loader/error.js";
import { byteLengthOf, isGraph } from "./manifest.js";
import { allocate } from "./shards.js";
import { weightSpecs } from "./weight_specs.js";

/** @import * as Api from "./tfjs.js" */
/** @import { StreamingLoader } from "../../weightstream.js" */

/** What TensorFlow.js reads of a `model.json` beside the weights. These are metadata of a converted model. */
const ARTIFACTS = [
  "modelTopology", "trainingConfig", "format", "generatedBy", "convertedBy", "signature", "userDefinedMetadata",
  "modelInitializer", "initializerSignature",
];

/** The warning about weights of a `model.json` whose positions are not known. */
const TEXTS = /not listed: \d+ weights that are texts/;

/**
 * @param {StreamingLoader} model
 * @param {Api.OpenModelOptions} options
 * @returns {Promise<Api.TfjsArtifacts>}
 */
export async function artifactsOf(model, { signal = null, onProgress, streamWeights }) {
  const { format, metadata } = await model.loadMetadata({ signal });
  const index = await model.loadIndex({ signal });
  if (format === "tfjs" && (await model.warnings({ signal })).some((warning) => TEXTS.test(warning))) {
    const message = "Weights that are texts, and those behind them in their files, have unknown positions. " +
      "Give the URL of the model to `ioHandler` instead of a loader.";
    throw fail({ code: "UNSUPPORTED", message });
  }
  const { specs, isConverted } = weightSpecs(index);
  /** @type {Api.TfjsArtifacts} */
  const artifacts = {};
  if (typeof metadata["modelTopology"] === "object") { // other formats have keys of these names, too
    Object.assign(artifacts, Object.fromEntries(ARTIFACTS.map((key) => [key, metadata[key]])));
  }
  artifacts.weightSpecs = specs;

  const total = specs.reduce((sum, spec) => sum + Number(byteLengthOf(spec)), 0);
  const tensors = () => {
    let loaded = 0;
    const onLoaded = (/** @type {number} */ bytes) => onProgress?.((loaded += bytes) / total);
    return new Weights(model, specs, { signal, isConverted, onLoaded });
  };
  if (streamWeights ?? isGraph(artifacts)) artifacts.getWeightStream = () => streamOf(tensors());
  else artifacts.weightData = await inMemory(tensors(), allocate(total, index[0]?.file ?? "the model"));
  return artifacts;
}

/** The bytes of the weights in the order of their specifications. */
class Weights {
  #tensors;
  #specs;
  #onLoaded;

  /**
   * @param {StreamingLoader} model
   * @param {Api.TfjsWeightSpec[]} specs
   * @param {{ signal: AbortSignal | null, isConverted: boolean, onLoaded: (bytes: number) => void }} how
   */
  constructor(model, specs, { signal, isConverted, onLoaded }) {
    const given = { names: specs.map(({ name }) => name), order: /** @type {const} */ ("given"), signal };
    this.#tensors = isConverted ? model.tensors({ ...given, as: "F32", layout: "dense" }) : model.tensors(given);
    this.#specs = specs.values();
    this.#onLoaded = onLoaded;
  }

  /** The next weight that has bytes. */
  async next() {
    for (;;) {
      const { value: tensor, done } = await this.#tensors.next();
      if (done) return undefined;
      const [component, ...others] = tensor.components.values();
      const { buffer, byteOffset, byteLength } = component?.data ?? new Uint8Array(0);
      const spec = this.#specs.next().value;
      if (!spec || others.length > 0 || byteLength !== byteLengthOf(spec)) {
        const message = `The tensor "${tensor.name}" does not have the length of its weight. ` +
          "This is a bug of weightstream.";
        throw fail({ code: "INTERNAL", message, tensor: tensor.name });
      }
      if (byteLength === 0) continue;
      this.#onLoaded(byteLength);
      return new Uint8Array(buffer, byteOffset, byteLength);
    }
  }

  async cancel() {
    await this.#tensors.return?.();
  }
}

/**
 * A stream with one buffer for each weight.
 *
 * @param {Weights} weights
 * @returns {ReadableStream<ArrayBuffer>}
 */
const streamOf = (weights) =>
  new ReadableStream({
    async pull(controller) {
      const weight = await weights.next();
      if (weight) controller.enqueue(weight.buffer);
      else controller.close();
    },
    cancel: () => weights.cancel(),
  }, { highWaterMark: 0 });

/**
 * All weights in one buffer.
 *
 * @param {Weights} weights
 * @param {Uint8Array<ArrayBuffer>} all
 */
async function inMemory(weights, all) {
  let at = 0;
  for (let weight; (weight = await weights.next());) {
    all.set(weight, at);
    at += weight.length;
  }
  return all.buffer;
}
