// @ts-check
// The files that the TVM runtime reads, for a model that is open, whatever its format.
import { StreamingLoader } from "../../weightstream.js";
import { checkAborted, untilAborted } from "../../loader/abort.js";
import { fail, invalid } from "../../loader/error.js";
import { modelArtifactsOptions, names } from "../../options/options.js";
import { textOf } from "../../source/url.js";

/** @import * as Api from "./tvmjs.js" */
/** @import { TensorInfo } from "../../weightstream.js" */

/** @typedef {{ dtype: string, format: string }} Stored How the runtime decodes the bytes of a tensor. */
/** @typedef {Stored & { name: string, shape: number[], byteOffset: number, nbytes: number }} TensorRecord */
/** @typedef {{ dataPath: string, format: "raw-shard", nbytes: number, records: TensorRecord[] }} ShardRecord */

/** The index, of which the runtime knows the name. */
const INDEX = "tensor-cache.json";

/** The length up to which tensors are in the same file, as in the files of MLC. The runtime loads one at a time. */
const SHARD_BYTES = 32 * 1024 * 1024;

/** The names of TVM. BF16 has two, of which an option chooses. */
const DTYPES = new Map([
  ["F64", "float64"], ["F32", "float32"], ["F16", "float16"], ["I64", "int64"], ["I32", "int32"], ["I16", "int16"],
  ["I8", "int8"], ["U64", "uint64"], ["U32", "uint32"], ["U16", "uint16"], ["U8", "uint8"], ["BOOL", "bool"],
  ["F8_E4M3", "float8_e4m3fn"], ["F8_E5M2", "float8_e5m2"], ["BF16", "bfloat16"],
]);

/** @implements {Api.ModelArtifacts} */
export class ModelArtifacts {
  #model;
  /** @type {AbortSignal | undefined} That of the load that has begun: the runtime passes it only with the index. */
  #signal;
  /** @type {Stored} */
  #bf16;
  /** @type {Promise<{ metadata: object, shards: Map<string, ShardRecord> }> | undefined} */
  #opening;

  /**
   * @param {StreamingLoader} model
   * @param {Api.ModelArtifactsOptions} [given]
   */
  constructor(model, given) {
    if (!(model instanceof StreamingLoader)) throw invalid("`model` must be a StreamingLoader");
    const { bfloat16 } = modelArtifactsOptions(given);
    this.#model = model;
    this.#bf16 = bfloat16 ? { dtype: "bfloat16", format: "raw" } : { dtype: "float32", format: "f32-to-bf16" };
  }

  /** @param {readonly string[]} keys */
  async hasAllKeys(keys) {
    const paths = names(keys, "keys").map(fileOf);
    const { shards } = await this.#open();
    return paths.every((path) => path === INDEX || shards.has(path));
  }

  /**
   * @param {string} url
   * @param {string} [storetype]
   * @param {AbortSignal} [signal]
   */
  async fetchWithCache(url, storetype, signal) {
    const path = fileOf(url);
    const stop = path === INDEX ? signal : signal ?? this.#signal;
    const { metadata, shards } = await untilAborted(stop, () => this.#open());
    if (path === INDEX) this.#signal = signal;
    const shard = shards.get(path);
    const type = String(storetype).toLowerCase();
    if (path === INDEX && type === "json") return structuredClone({ metadata, records: [...shards.values()] });
    if (shard && type === "arraybuffer") return this.#load(shard, shards, stop);
    if (path !== INDEX && !shard) throw noFile(path);
    throw invalid(`\`storetype\` is ${JSON.stringify(storetype)}, but must be "json" for ${INDEX}, and "arraybuffer" ` +
      "for the files that it lists");
  }

  /**
   * @param {string} url
   * @param {string} [_storetype]
   * @param {AbortSignal} [signal]
   */
  async addToCache(url, _storetype, signal) {
    checkAborted(signal);
    if (!(await this.hasAllKeys([url]))) throw noFile(fileOf(url));
  }

  async deleteInCache() {
    throw fail({ code: "UNSUPPORTED", message: "An open model is not deleted. Delete its URL with deleteCached()." });
  }

  /**
   * Loads the tensors of a file into one buffer, and begins with those of the next one.
   *
   * @param {ShardRecord} shard
   * @param {Map<string, ShardRecord>} shards
   * @param {AbortSignal | undefined} signal
   */
  async #load(shard, shards, signal) {
    checkAborted(signal);
    const all = [...shards.values()];
    const upcoming = all.slice(all.indexOf(shard)).slice(0, 2);
    const early = upcoming.filter(({ nbytes }) => nbytes <= SHARD_BYTES).flatMap(({ records }) => records);
    this.#model.prefetch(early.map(({ name }) => name), { signal });
    const [only, ...others] = shard.records;
    if (only && others.length === 0) {
      const { components } = await this.#model.loadTensor(only.name, { signal });
      return components.get("data")?.data.buffer;
    }
    const bytes = new Uint8Array(shard.nbytes);
    for (const { name, byteOffset, nbytes } of shard.records) {
      const into = bytes.subarray(byteOffset, byteOffset + nbytes);
      await this.#model.loadTensor(name, { into, signal });
    }
    return bytes.buffer;
  }

  async #open() {
    if (!this.#opening) {
      this.#opening = this.#read();
      this.#opening.catch(() => (this.#opening = undefined)); // the next call tries again
    }
    return this.#opening;
  }

  async #read() {
    const { metadata } = await this.#model.loadMetadata();
    const shards = new Map();
    /** @type {ShardRecord | undefined} */
    let shard;
    for (const tensor of await this.#model.loadIndex()) {
      const { name, shape } = tensor;
      const { nbytes, ...stored } = this.#storedAs(tensor);
      if (!shard || (shard.nbytes > 0 && shard.nbytes + nbytes > SHARD_BYTES)) {
        const dataPath = `params_shard_${shards.size}.bin`;
        shards.set(dataPath, (shard = { dataPath, format: "raw-shard", nbytes: 0, records: [] }));
      }
      shard.records.push({ name, shape: [...shape], ...stored, byteOffset: shard.nbytes, nbytes });
      shard.nbytes += nbytes;
    }
    return { metadata, shards };
  }

  /**
   * @param {TensorInfo} tensor
   * @returns {Stored & { nbytes: number }}
   */
  #storedAs({ name, dtype, layout, byteLength: nbytes }) {
    const known = DTYPES.get(dtype);
    if (layout !== "dense" || !known || nbytes === undefined) {
      const what = layout === "dense" ? `has no dtype ${dtype}` : `takes only dense tensors, not the layout ${layout}`;
      const message = `The TVM runtime ${what}, which the tensor "${name}" has. Convert the model for it with MLC.`;
      throw fail({ code: "UNSUPPORTED", message, tensor: name });
    }
    return dtype === "BF16" ? { ...this.#bf16, nbytes } : { dtype: known, format: "raw", nbytes };
  }
}

/**
 * The name of a file at a URL of the runtime.
 *
 * @param {unknown} url
 */
function fileOf(url) {
  const path = textOf(url)?.replace(/[?#].*$/s, "").split("/").pop();
  if (path === undefined) throw invalid("a URL must be a string or a URL");
  return path;
}

/** @param {string} path */
const noFile = (path) =>
  fail({ code: "NOT_FOUND", message: `The open model has no file "${path}": the runtime reads ${INDEX} first.` });
