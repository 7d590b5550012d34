// Compiled with every version of TypeScript that is supported, also with the libraries of ES2022.
import { StreamingLoader, openFile } from "weightstream";
import { createFetch } from "weightstream/fetch";
import { externalData } from "weightstream/onnxruntime";
import { connect } from "weightstream/transformers";
import { ArtifactCache, prefill } from "weightstream/tvmjs";
import { modelBlobs } from "weightstream/wllama";

export async function load(): Promise<void> {
  const loader = await StreamingLoader.open("/model.safetensors", { signal: new AbortController().signal });
  for await (const { name, data } of loader.tensors()) console.log(name, data?.byteLength);
  const file = await openFile("/tokenizer.json");
  const bytes: Uint8Array = await file.bytes();
  console.log(bytes, await externalData(loader, "model.safetensors"), createFetch(), connect, modelBlobs);
  console.log(new ArtifactCache(), prefill);
}
