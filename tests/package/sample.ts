// Every call of the package, as a web app would write it. It is only type-checked.

import {
  LoadError,
  StreamingLoader,
  cachedBytes,
  cachedModels,
  clearCache,
  combineProgress,
  deleteCached,
  init,
  listCached,
  openFile,
  willFit,
  type ArrivedRange,
  type ByteSource,
  type CachedFile,
  type CachedModel,
  type CombinedProgress,
  type ComponentInfo,
  type Fit,
  type LoadErrorCode,
  type LoadProgress,
  type LoadTensorOptions,
  type LoaderStats,
  type Metadata,
  type OpenFileOptions,
  type OpenOptions,
  type RemoteFile,
  type Source,
  type StorageBucketOption,
  type Tensor,
  type TensorChunk,
  type TensorComponent,
  type TensorData,
  type TensorInfo,
  type TensorsOptions,
  type Verified,
  type WeightCache,
} from "weightstream";
import { createFetch, type FetchOptions } from "weightstream/fetch";
import {
  allowFolder, clearFolder, deleteFromFolder, folderFiles, folderPermission, forgetFolder, rememberFolder,
  rememberedFolder, type FolderFile,
} from "weightstream/folders";
import { StreamingLoader as InlineLoader } from "weightstream/inline";
import { externalData, prepare, type ExternalDataProgress, type PreparedData } from "weightstream/onnxruntime";
import { serve, type ServeOptions } from "weightstream/service-worker";
import { ioHandler, type IoHandlerOptions, type TfjsArtifacts, type TfjsHandler } from "weightstream/tfjs";
import { connect, type ConnectOptions, type TransformersEnvironment } from "weightstream/transformers";
import { ArtifactCache, prefill, type ArtifactCacheOptions, type PrefillOptions } from "weightstream/tvmjs";
import { modelBlobs, type ModelBlobs, type ModelBlobsOptions } from "weightstream/wllama";

export async function everyWayToInitialise(bytes: ArrayBuffer, module: WebAssembly.Module): Promise<void> {
  await init();
  await init("weightstream_bg.wasm");
  await init(new URL("https://example.org/weightstream_bg.wasm"));
  await init(new Request("weightstream_bg.wasm"));
  await init(await fetch("weightstream_bg.wasm"));
  await init(bytes);
  await init(new Uint8Array(bytes));
  await init(module);
  await init({ module: fetch("weightstream_bg.wasm"), workerUrl: "weightstream.worker.js" });
  await init({ module, worker: () => new Worker("weightstream.worker.js") });
  await init({ workerUrl: new URL("https://example.org/weightstream.worker.js") });
}

/** The entry with everything inside has the same interface. */
export const inline: typeof StreamingLoader = InlineLoader;

export function everySource(file: File, bytes: ArrayBuffer): Source[] {
  const own: ByteSource = {
    byteLength: bytes.byteLength,
    slice: async (start, end) => bytes.slice(start, end),
  };
  return ["model.apr", new URL("https://example.org/model.apr"), new Blob([bytes]), file, bytes, own, [file, file]];
}

export function everyOption(controller: AbortController): OpenOptions {
  return {
    signal: controller.signal,
    fetch: (input, init) => fetch(input, init),
    headers: { Authorization: "Bearer …" },
    credentials: "include",
    onProgress: showProgress,
    verify: true,
    concurrency: 2,
    mirrors: ["https://mirror.example.org/m.gguf", new URL("https://b.example.org/m.gguf")],
    coalesceGap: 64 * 1024,
    cache: "none",
    maxMemory: 64 * 1024 * 1024,
    workers: 2,
    inWorker: true,
  };
}

export function everyKindOfHeaders(signal: AbortSignal | null): OpenOptions[] {
  const pairs: [string, string][] = [["X-Model", "1"]];
  const unset: OpenOptions = {
    signal, headers: undefined, concurrency: undefined, digests: { tensors: undefined },
    retry: { attempts: undefined },
  };
  return [
    { headers: { "X-Model": "1" } }, { headers: new Headers(pairs) }, { headers: pairs }, { headers: new Map(pairs) },
    unset,
  ];
}

export function chosenFiles(input: HTMLInputElement): Source | null {
  return input.files;
}

export function everyCache(folder: Map<string, Promise<Uint8Array<ArrayBuffer>>>): OpenOptions[] {
  const own: WeightCache = {
    get: (key) => folder.get(key),
    set: async (key, bytes) => void folder.set(key, Promise.resolve(bytes)),
    delete: (key) => folder.delete(key),
    keys: async () => [...folder.keys()],
  };
  return [
    { cache: "auto", cacheKey: (url) => url }, { cache: "opfs" }, { cache: "none" }, { cache: own },
    { cache: new Map<string, Uint8Array<ArrayBuffer>>() },
  ];
}

export async function everyCallOfTheCache(): Promise<void> {
  const files: readonly CachedFile[] = await listCached();
  for (const { url, cachedBytes, byteLength, lastUsed } of files) {
    console.log(url, cachedBytes / (byteLength ?? Infinity), lastUsed.toISOString());
    await deleteCached(url);
  }
  await deleteCached(new URL("https://example.org/model.apr"));
  for (const model of await cachedModels()) {
    const { url, files, byteLength, lastUsed }: CachedModel = model;
    console.log(url, files.every((file) => file.model === url), byteLength?.toFixed(), lastUsed.getTime());
    await deleteCached(model);
  }
  const bytes: number = await cachedBytes();
  if (bytes > 0) await clearCache();
}

function showProgress(event: LoadProgress): void {
  const type: "loadTensor" | "tensors" | "prefetch" | "verify" | "file" = event.type;
  const secondsLeft: number = event.secondsLeft ?? Infinity;
  const percent = (100 * event.loaded) / event.total;
  console.log(type, percent, event.bytesPerSecond, secondsLeft, event.tensor ?? "", event.fromCache, event.done);
  event.ranges.forEach(({ shard, start, end, connection }: ArrivedRange) => {
    console.log(shard, end - start, connection);
  });
}

export async function everyCall(source: Source, options: OpenOptions, signal: AbortSignal): Promise<void> {
  using loader: StreamingLoader = await StreamingLoader.open(source, options);

  const metadata: Metadata = await loader.loadMetadata();
  const architecture: unknown = metadata.metadata["model_type"];
  console.log(metadata.format, metadata.version, architecture);

  const index: readonly TensorInfo[] = await loader.loadIndex();
  const first = index[0];
  if (!first) return;
  const dimensions: readonly number[] = first.shape;
  const components: readonly ComponentInfo[] = first.components;
  console.log(first.name, first.dtype, dimensions.length, first.layout, first.byteLength, first.shard);
  for (const { role, dtype, byteLength, storedByteLength, encoding } of components) {
    console.log(role, dtype, byteLength ?? storedByteLength, encoding);
  }

  const everyLoadOption: LoadTensorOptions = { signal, into: new ArrayBuffer(first.byteLength ?? 0), rows: [0, 1] };
  const tensor: Tensor<ArrayBufferLike> = await loader.loadTensor(first.name, everyLoadOption);
  await loader.loadTensor(first.name, { into: new Float32Array(16) });
  const chunks: TensorChunk[] = [];
  const inChunks: Tensor = await loader.loadTensor(first.name, { onChunk: (chunk) => void chunks.push(chunk) });
  await loader.loadTensor(first.name, { onChunk: async ({ offset, bytes }) => console.log(offset, bytes.buffer) });
  console.log(inChunks.name);
  await loader.loadTensor(first.name, { into: new SharedArrayBuffer(first.byteLength ?? 0) });
  describe(tensor);

  loader.prefetch(["encoder.layer.0.output.dense.weight"]);
  loader.prefetch(new Set(index.map(({ name }) => name)));

  for await (const each of loader.tensors()) describe(each);
  const some: TensorsOptions = { names: index.map(({ name }) => name), signal };
  for await (const each of loader.tensors(some)) describe(each);

  const verified: Verified = await loader.verify();
  await loader.verify({ signal });
  const stats: LoaderStats = loader.stats;
  console.log(
    verified, stats.requests, stats.bytesReceived, stats.bytesFromCache, stats.cacheError, stats.workersError,
    stats.bytesDecoded, stats.wasmMemoryBytes,
    stats.mirrors?.map(({ url, byteLength, failure }) => `${url}: ${byteLength} ${failure ?? ""}`),
  );
  loader.close();
}

function describe({ name, dtype, shape, layout, data, components, verified }: Tensor<ArrayBufferLike>): void {
  if (data instanceof Float32Array) console.log("largest", data.reduce((a, b) => Math.max(a, b), -Infinity));
  const bytes: TensorData<ArrayBufferLike> | undefined = data;
  const parts: ReadonlyMap<string, TensorComponent<ArrayBufferLike>> = components;
  const values = parts.get("values")?.data;
  console.log(name, dtype, shape.join("×"), layout, bytes?.byteLength, values?.byteLength, verified ?? "unchecked");
}

export function everyField(error: unknown): string {
  if (!(error instanceof LoadError)) return String(error);
  const code: LoadErrorCode = error.code;
  const where = error.range ? `${error.range[0]}..${error.range[1]} of ${error.url}` : error.url;
  return `${error.name} ${code} ${where} ${error.tensor} ${error.status}: ${error.message} (${error.cause})`;
}

// @ts-expect-error: only `open` creates a loader.
new StreamingLoader();
// @ts-expect-error: a number is not a source.
StreamingLoader.open(42);

export async function fits(source: string | File, options: OpenOptions): Promise<boolean | undefined> {
  const { byteLength, storage, memory, persisted }: Fit = await willFit(source, options);
  const available: number | undefined = storage.available;
  console.log(byteLength, storage.needed, available, memory.needed, memory.largest, memory.limit, persisted);
  // @ts-expect-error: the body of a Response can be read only once.
  await willFit(new Response());
  return storage.fits && memory.fits;
}

export async function combined(url: string): Promise<void> {
  const onProgress = combineProgress(({ loaded, total, bytesPerSecond, secondsLeft, done }: CombinedProgress) => {
    console.log(loaded / total, bytesPerSecond, secondsLeft?.toFixed(), done);
  });
  await Promise.all([StreamingLoader.open(url, { onProgress }), openFile(url, { onProgress })]);
}

export async function sources(
  file: FileSystemFileHandle, folder: FileSystemDirectoryHandle, { items, files }: DataTransfer, response: Response,
): Promise<void> {
  const all: Source[] = [file, folder, [file, await file.getFile()], files, items, response, ...Array.from(items)];
  for (const source of all) await StreamingLoader.open(source);
  for (const source of [file, response, ...Array.from(items)]) await openFile(source);
  // @ts-expect-error: a folder is several files.
  await openFile(folder);
}

export async function files(signal: AbortSignal): Promise<void> {
  const options: OpenFileOptions = { digest: "sha256:00", maxMemory: 1 << 20, type: "text/plain", signal, retry: {} };
  const file: RemoteFile = await openFile("https://example.org/tokenizer.json", options);
  const length: number = file.byteLength ?? 0;
  const bytes: Uint8Array<ArrayBuffer> = await file.bytes(0, length, { signal });
  const stream: ReadableStream<Uint8Array<ArrayBuffer>> = file.stream({ start: 1, end: 2, signal });
  const [text, buffer, json]: [string, ArrayBuffer, unknown] =
    [await file.text(), await file.arrayBuffer(), await file.json()];
  const [blob, response, stored]: [Blob, Response, File] = [file.blob(), file.response(), await file.file()];
  const onRead = ({ loaded, total, outcome }: ExternalDataProgress): void => console.log(loaded, total, outcome);
  const external: { path: string; data: Blob }[] = await externalData(file, "weights.bin", { onProgress: onRead });
  const loader = await StreamingLoader.open("https://example.org/model.apr");
  const model: Blob = await loader.toBlob();
  const externalModel: { path: string; data: Blob }[] = await externalData(loader, "model.safetensors");
  const graph = await file.arrayBuffer();
  const prepared: PreparedData = prepare("/model.apr", "model.safetensors", {
    graph, readAhead: 32 << 20, onProgress: onRead, open: { cache: "none" },
  });
  console.log(prepared.externalData[0]?.path, (await prepared.loader).stats.requests);
  prepared.close();
  const size: number = loader.toBlob().slice(0, 8).size + model.size;
  console.log(externalModel, size);
  console.log(bytes, stream, text, buffer, json, blob, response, stored, external, file.type, file.url, file.stats);
  file.close();

  const fetchOptions: FetchOptions = { cache: "none", headers: { "X-Test": "1" }, origins: ["https://example.org"] };
  const fetch: typeof globalThis.fetch = createFetch(fetchOptions);
  await fetch("/weights.bin", { signal });
}

export async function runtimes(env: TransformersEnvironment, wllama: Wllama, signal: AbortSignal): Promise<void> {
  const connectOptions: ConnectOptions = { cache: "none", signal, retry: { attempts: 3 }, headers: undefined };
  const disconnect: () => void = connect(env, connectOptions);
  connect(env);
  disconnect();

  const blobsOptions: ModelBlobsOptions = { maxMemory: 1 << 20, signal };
  using blobs: ModelBlobs = await modelBlobs("/model-00001-of-00002.gguf", blobsOptions);
  await wllama.loadModel(blobs);
  blobs.close();
  await modelBlobs(["/a.gguf", new URL("https://example.org/b.gguf")] as const);
}

export async function mlc(tvm: TvmInstance, record: ModelRecord, signal: AbortSignal): Promise<void> {
  const shared: ArtifactCacheOptions = { headers: { "X-Test": "1" }, digests: { "/model/a.bin": "crc32:00000000" } };
  const artifactCache = new ArtifactCache({ ...shared, cache: new Map<string, Uint8Array<ArrayBuffer>>() });
  await tvm.fetchTensorCache("https://example.org/model/", { artifactCache });
  const isComplete: boolean = await artifactCache.hasAllKeys(["https://example.org/a.bin"] as const);
  const bytes: ArrayBuffer = await artifactCache.fetchWithCache("/a.bin", "arraybuffer", signal);
  await artifactCache.addToCache("/a.bin", "arraybuffer");
  await artifactCache.deleteInCache("/a.bin");
  console.log(isComplete, bytes);

  const prefillOptions: PrefillOptions = { signal, onProgress: ({ loaded, total }) => console.log(loaded / total) };
  await prefill(record, prefillOptions);
  await prefill({ model: "https://example.org/model" }, { cache: "auto" });
}

// The types of the TVM runtime that take an artifact cache, and the record of a model of web-llm.
interface ArtifactCacheTemplate {
  fetchWithCache(url: string, storetype?: string, signal?: AbortSignal): Promise<any>;
  addToCache(url: string, storetype?: string, signal?: AbortSignal): Promise<void>;
  hasAllKeys(keys: string[]): Promise<boolean>;
  deleteInCache(url: string): Promise<void>;
}
interface TvmInstance {
  fetchTensorCache(url: string, options: { artifactCache?: ArtifactCacheTemplate }): Promise<any>;
}
interface ModelRecord {
  model: string;
  model_id: string;
  model_lib: string;
  model_manifest?: string;
}

// @ts-expect-error: a signal belongs to a call.
new ArtifactCache({ signal: new AbortController().signal });

// The member of wllama that takes the Blobs.
interface Wllama {
  loadModel(blobs: Blob[]): Promise<void>;
}

// @ts-expect-error: a digest is the digest of one file.
modelBlobs("/model.gguf", { digest: "sha256:00" });

export async function tensorFlow(tf: TensorFlow, signal: AbortSignal): Promise<void> {
  const options: IoHandlerOptions = {
    signal, cache: "none", digests: { "model.json": "sha256:00" }, onProgress: (fraction) => console.log(fraction),
    streamWeights: true, weightPathPrefix: undefined, weightUrlConverter: async (path) => `/weights/${path}`,
  };
  const handler: TfjsHandler = ioHandler("/model.json", options);
  await tf.loadGraphModel(handler);
  const { weightData, weightSpecs, getWeightStream }: TfjsArtifacts = await ioHandler(new URL("/model.json")).load();
  const stream: ReadableStream<ArrayBuffer> | undefined = getWeightStream?.();
  console.log(weightData?.byteLength, weightSpecs?.[0]?.quantization?.dtype, stream);
}

// The parts of TensorFlow.js that take a handler, as its declarations have them.
interface TensorFlow {
  loadGraphModel(handler: { load?: () => Promise<ModelArtifacts> }): Promise<unknown>;
}

interface ModelArtifacts {
  modelTopology?: {} | ArrayBuffer;
  weightSpecs?: {
    name: string; shape: number[]; dtype: "float32" | "int32" | "bool" | "string" | "complex64";
    group?: "model" | "optimizer";
    quantization?: { scale?: number; min?: number; dtype: "uint16" | "uint8" | "float16" };
  }[];
  weightData?: ArrayBuffer | ArrayBuffer[];
  getWeightStream?: () => ReadableStream<ArrayBuffer>;
  convertedBy?: string | null;
  userDefinedMetadata?: { [key: string]: {} };
}

export function serviceWorker(): void {
  const options: ServeOptions = {
    match: ({ pathname }) => pathname.startsWith("/models/"), source: (url) => new URL(url.pathname, "https://b.test/"),
    onError: (error: unknown, url: string) => console.log(error, url), cache: "auto", maxMemory: 1 << 20, retry: {},
  };
  serve(options);
  serve({ match: () => true, source: undefined, onError: undefined });
}

// @ts-expect-error: a promise is no answer.
serve({ match: async () => true });

export async function everyCallOfFolders(chosen: FileSystemDirectoryHandle): Promise<readonly FolderFile[]> {
  await rememberFolder(chosen);
  await rememberFolder(chosen, "models");
  const folder = (await rememberedFolder("models")) ?? chosen;
  if ((await folderPermission(folder)) === "prompt" && !(await allowFolder(folder))) return [];
  const bucket: StorageBucketOption = { storageBucket: "whisper-v3" };
  for (const cache of [folder, bucket]) {
    const loader = await StreamingLoader.open("https://example.org/model.apr", { cache });
    loader.close();
    await deleteFromFolder(cache, new URL("https://example.org/model.apr"));
    await clearFolder(cache);
  }
  await forgetFolder("models");
  return folderFiles(folder);
}
