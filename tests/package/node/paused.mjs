// Run by Node.js, Deno and Bun: leaves an iterator, a stream and a probe of transformers.js unfinished. The arguments
// are the URLs of a model and of a file. Prints the time as JSON, and must then end by itself.

import process from "node:process";
import { openFile, StreamingLoader } from "weightstream";
import { connect } from "weightstream/transformers";

const [model, file] = process.argv.slice(2);

globalThis.tensors = (await StreamingLoader.open(model)).tensors();
await globalThis.tensors.next();

globalThis.reader = (await openFile(file)).stream().getReader();
await globalThis.reader.read();

const env = { fetch: (...given) => fetch(...given) };
connect(env);
await (await env.fetch(file, { headers: { Range: "bytes=0-0" } })).arrayBuffer();

console.log(JSON.stringify({ endedAt: Date.now() }));
