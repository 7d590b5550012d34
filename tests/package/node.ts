// An app for Node.js, without the types of the DOM. It is only type-checked, with every version of TypeScript.
import { readFile } from "node:fs/promises";
import { StreamingLoader, init, listCached, openFile, willFit } from "weightstream";
import { createFetch } from "weightstream/fetch";
import { externalData } from "weightstream/onnxruntime";
import { ioHandler } from "weightstream/tfjs";
import { connect } from "weightstream/transformers";
import { ArtifactCache } from "weightstream/tvmjs";

export async function loads(path: string, signal: AbortSignal): Promise<number> {
  await init({ workerUrl: new URL("file:///weightstream.node_worker.js") });
  const headers = new Headers({ authorization: "Bearer x" });
  const cache = new Map<string, Uint8Array>();
  const loader = await StreamingLoader.open(path, { headers, credentials: "omit", cache });
  const tensors = await loader.loadIndex({ signal });
  let count = tensors.reduce((sum, { parameterCount }) => sum + parameterCount, 0);
  for await (const tensor of loader.tensors({ signal })) if (tensor.is("F32")) count += tensor.data.length;
  const { data } = await loader.loadTensor("a", { as: "F32", signal });
  const floats: Float32Array = data;
  loader.close();
  return count + floats.length;
}

export async function opensBytes(path: string): Promise<unknown[]> {
  const bytes = await readFile(path);
  const file = await openFile(bytes);
  const slice = (start: number, end: number) => bytes.subarray(start, end);
  const fit = await willFit({ byteLength: bytes.length, slice });
  const entries = [createFetch(), externalData, ioHandler(path), connect, ArtifactCache];
  return [file.type, fit.memory, await listCached(), ...entries];
}
