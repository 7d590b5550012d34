// `using`, for libraries that have `Symbol.dispose`. It is only type-checked.
import { StreamingLoader, openFile } from "weightstream";
import { modelBlobs } from "weightstream/wllama";

export async function closes(): Promise<void> {
  using loader = await StreamingLoader.open("/model.safetensors");
  using file = await openFile("/tokenizer.json");
  using blobs = await modelBlobs("/model.gguf");
  console.log(loader.stats, file.url, blobs.length);
}
