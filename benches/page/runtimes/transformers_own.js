// transformers.js fetches all files itself, and stores them with the Cache API.
import { firstOutput } from "./transformers.js";

export const outputs = (model) => firstOutput(model, { use_external_data_format: model.startsWith("large/") });

// transformers.js waits for its cache before it uses a file.
export async function settle() {}
