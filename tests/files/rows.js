// Rows of compressed tensors: only their blocks are requested, once the positions of the blocks are known.
import { Failures, hex } from "./common.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");

const MODES = [{}, { workers: 2 }, { inWorker: true }];
const ROW_BYTES = 1024;
const ROWS = 12288;
const BLOCK_BYTES = 66 << 10; // of LZ4, stored
const FRAME_BYTES = 1 << 20; // of Zstandard, decoded

// Loads the rows, compares them with those of the whole tensor, and returns how many bytes arrived for them.
async function received(failures, what, loader, whole, rows) {
  const before = (await loader.stats).bytesReceived;
  const { data, shape } = await loader.loadTensor("t", { rows });
  const bytes = Number((await loader.stats).bytesReceived - before);
  const [first, end] = rows;
  failures.same(`${what}: shape`, shape.map(Number), [end - first, ROW_BYTES]);
  failures.same(`${what}: bytes`, await hex(data), await hex(whole.subarray(first * ROW_BYTES, end * ROW_BYTES)));
  return bytes;
}

async function inEveryMode(path, test) {
  const failures = new Failures();
  const reference = await StreamingLoader.open("/rows/m.safetensors", { cache: "none" });
  const { data: whole } = await reference.loadTensor("t");
  reference.close();
  for (const mode of MODES) {
    const loader = await StreamingLoader.open(`/rows/${path}`, { cache: "none", ...mode });
    await test(failures, `${path} ${JSON.stringify(mode)}`, (...rows) =>
      received(failures, `${path} ${JSON.stringify(mode)} ${rows}`, loader, whole, rows), loader);
    loader.close();
  }
  return failures;
}

function atMost(failures, what, bytes, limit) {
  if (!(bytes <= limit)) failures.push(`${what}: ${bytes} bytes for at most ${limit}`);
}

export const ofOurLz4 = () => inEveryMode("own.apr", async (failures, what, load, loader) => {
  for (const rows of [[ROWS - 64, ROWS], [6016, 6080], [0, 1]]) {
    atMost(failures, `${what} ${rows}`, await load(...rows), BLOCK_BYTES);
  }
  const keys = Object.keys(await loader.loadMetadata());
  failures.same(`${what}: metadata`, keys.filter((key) => key.includes("blocks")), []);
});

export const ofOurZstandard = () => inEveryMode("own.zt", async (failures, what, load) => {
  for (const rows of [[ROWS - 64, ROWS], [6016, 6080], [0, 1]]) {
    atMost(failures, `${what} ${rows}`, await load(...rows), FRAME_BYTES);
  }
});

export const ofAFileWithoutPositions = () => inEveryMode("foreign.apr", async (failures, what, load, loader) => {
  const first = await load(6016, 6080);
  if (!(first >= 20 * BLOCK_BYTES)) failures.push(`${what}: only ${first} bytes for the first rows`);
  atMost(failures, `${what}: again`, await load(5952, 6016), BLOCK_BYTES);
  await loader.loadTensor("t");
  atMost(failures, `${what}: after the whole tensor`, await load(ROWS - 64, ROWS), BLOCK_BYTES);
});
