// A linear layer in ONNX Runtime Web: its outputs, with plain weights and with those of a compressed model.
import { COLUMNS, ROWS, linearGraph } from "./graph.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");
const { externalData } = await import("/pkg/weightstream.onnxruntime.js");
const { Failures } = await import("/files/common.js");

export async function outputs(ort, graph, external, provider = "wasm") {
  const session = await ort.InferenceSession.create(graph, { externalData: external, executionProviders: [provider] });
  const x = Float32Array.from({ length: ROWS }, (_, at) => Math.sin(at));
  const { y } = await session.run({ x: new ort.Tensor("float32", x, [1, ROWS]) });
  await session.release();
  return Array.from(y.data);
}

// A compressed model in several files, whose tensors the graph finds in the SafeTensors file that it is presented as.
export async function compareModel(build, provider = "wasm") {
  const failures = new Failures();
  const ort = await import(`/npm/onnxruntime-web/dist/${build}`);
  ort.env.wasm.wasmPaths = "/npm/onnxruntime-web/dist/";
  ort.env.wasm.numThreads = 1;
  const file = new Uint8Array(await (await fetch("/linear/model.safetensors")).arrayBuffer());
  const headerLength = Number(new DataView(file.buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + headerLength)));
  const placeOf = ({ data_offsets: [start, end] }) => ({ offset: 8 + headerLength + start, length: end - start });
  const graph = linearGraph("model.safetensors", placeOf(header.W), placeOf(header.b));
  const expected = await outputs(ort, graph, [{ path: "model.safetensors", data: file }], provider);
  failures.same("outputs", [expected.length, new Set(expected).size > 200], [COLUMNS, true]);

  for (const inWorker of [false, true]) {
    const loader = await StreamingLoader.open("/linear/model.apr", { cache: "none", inWorker });
    const found = await outputs(ort, graph, await externalData(loader, "model.safetensors"), provider);
    failures.same(`the same outputs, inWorker: ${inWorker}`, found, expected);
    failures.same("bytes are compressed", loader.stats.bytesReceived < file.length, true);
    loader.close();
  }
  return failures;
}
