// Writes the files of `graphModel` to a folder: node write_tfjs_model.js FOLDER
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { graphModel, sharded } from "./tfjs_models.js";

const [, , folder] = process.argv;
const files = sharded(graphModel(), [100_000, Infinity]);
for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, name), bytes);
