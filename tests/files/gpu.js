// Tensors in buffers of a GPU (`device`), read back and compared with those in memory.
import { Failures, RETRY, content, hex, serverOf } from "./common.js";
import { ggufOf, quantizedTensors } from "./quantized.js";

const { StreamingLoader } = await import("/pkg/weightstream.js");

const MODELS = ["apr/v1_lz4.apr", "safetensors/alltypes.safetensors", "ztensor/py123_alltypes.zt", "gguf/quant.gguf",
  "apr/sharded/model.apr.json"];

/** @type {GPUDevice} */
let device;

async function openDevice(requiredLimits) {
  const adapter = await navigator.gpu.requestAdapter();
  return adapter.requestDevice({ requiredLimits });
}

async function readBack(gpuBuffer) {
  const copy = device.createBuffer({ size: gpuBuffer.size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const commands = device.createCommandEncoder();
  commands.copyBufferToBuffer(gpuBuffer, 0, copy, 0, gpuBuffer.size);
  device.queue.submit([commands.finish()]);
  await copy.mapAsync(GPUMapMode.READ);
  const bytes = new Uint8Array(copy.getMappedRange().slice(0));
  copy.destroy();
  return bytes;
}

const bytesOf = ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength);

export async function everyTensorOfAModel() {
  const failures = new Failures();
  device = await openDevice();
  for (const path of MODELS) {
    for (const inWorker of path.startsWith("apr") ? [false, true] : [false]) {
      const events = [];
      const onProgress = (event) => event.type === "tensors" && events.push(event);
      const loader = await StreamingLoader.open(`/fixtures/${path}`, { cache: "none", inWorker, onProgress });
      const names = [];
      for await (const tensor of loader.tensors({ device })) {
        const { name, dtype, shape, byteLength, gpuBuffer, verified } = tensor;
        const expected = await loader.loadTensor(name);
        const found = await readBack(gpuBuffer);
        const what = `${path} ${name} ${inWorker}`;
        failures.same(`${what}: bytes`, await hex(found.slice(0, byteLength)), await hex(bytesOf(expected.data)));
        const padding = [...found.slice(byteLength)];
        failures.same(`${what}: padding`, padding.length < 8 && padding.every((byte) => byte === 0), true);
        failures.same(`${what}: fields`, [dtype, shape, verified], [expected.dtype, expected.shape, expected.verified]);
        names.push(name);
        gpuBuffer.destroy();
      }
      const index = await loader.loadIndex();
      failures.same(`${path}: names`, names, index.map(({ name }) => name));
      const total = index.flatMap(({ components }) => components)
        .reduce((sum, { storedByteLength }) => sum + storedByteLength, 0);
      const { loaded, outcome } = events.at(-1);
      failures.same(`${path}: progress`, [loaded, events[0].total, outcome], [total, total, "done"]);
      failures.same(`${path}: ends once`, events.filter(({ done }) => done).length, 1);
      loader.close();
    }
  }
  return failures;
}

export async function convertedTensors() {
  const failures = new Failures();
  device = await openDevice();
  const tensors = quantizedTensors();
  const loader = await StreamingLoader.open(new Blob([ggufOf(tensors)]));
  for (const { name, values } of tensors) {
    for (const as of ["F32", "F16"]) {
      const tensor = await loader.loadTensor(name, { device, as });
      const byteLength = values.length * (as === "F32" ? 4 : 2);
      failures.same(`${name} as ${as}`, [tensor.dtype, tensor.byteLength], [as, byteLength]);
      const found = (await readBack(tensor.gpuBuffer)).slice(0, tensor.byteLength);
      const expected = as === "F32" ? values : halves(values);
      const [bits, wanted] = as === "F32" ? [new Uint32Array(found.buffer), new Uint32Array(expected.buffer)] :
        [new Uint16Array(found.buffer), expected];
      const wrong = bits.findIndex((value, at) => value !== wanted[at]);
      if (wrong >= 0) failures.push(`${name} as ${as}: value ${wrong} is ${bits[wrong]}, not ${wanted[wrong]}`);
    }
  }
  loader.close();
  return failures;
}

// F32 to F16 in double precision: to nearest, ties to even.
function halves(values) {
  return Uint16Array.from(values, (value) => {
    const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
    const size = Math.abs(value);
    if (size >= 65520) return sign | 0x7c00;
    const exponent = Math.max(-14, Math.floor(Math.log2(size || 1e-9)));
    for (const power of [exponent, exponent - 1, exponent + 1]) {
      const scaled = size / 2 ** (power - 10);
      if (power < -14 || (scaled >= 2048) || (scaled < 1024 && power > -14)) continue;
      const [down, rest] = [Math.floor(scaled), scaled - Math.floor(scaled)];
      const rounded = down + (rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? 1 : 0);
      return sign | (power === -14 ? rounded : ((power + 15) << 10) + rounded - 1024);
    }
    return sign;
  });
}

// A SafeTensors file of one F32 matrix.
function matrix(rows, columns) {
  const header = JSON.stringify({ m: { dtype: "F32", shape: [rows, columns], data_offsets: [0, rows * columns * 4] } });
  const file = new Uint8Array(8 + header.length + rows * columns * 4).map((_, at) => (at * 7 + (at >> 9)) & 0x7f);
  new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
  file.set(new TextEncoder().encode(header), 8);
  return { file, data: file.slice(8 + header.length) };
}

export async function largeTensorsAndRows() {
  const failures = new Failures();
  device = await openDevice();
  const { file, data } = matrix(3000, 1000);
  const server = serverOf(file, (number) => (number > 0 && number < 3 ? { cutAfter: 2_500_000 } : {}));
  const loader = await StreamingLoader.open("/m.safetensors", { fetch: server.fetch, cache: "none", retry: RETRY });
  const whole = await loader.loadTensor("m", { device });
  failures.same("12 MB over connections that break", await hex(await readBack(whole.gpuBuffer)), await hex(data));
  const rows = await loader.loadTensor("m", { device, rows: [10, 20], usage: GPUBufferUsage.COPY_SRC });
  failures.same("rows", [rows.shape, rows.byteLength], [[10, 1000], 40_000]);
  failures.same("their bytes", await hex(await readBack(rows.gpuBuffer)), await hex(data.slice(40_000, 80_000)));
  failures.same("their usage", rows.gpuBuffer.usage, GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST);
  loader.close();
  return failures;
}

export async function failedLoads() {
  const failures = new Failures();
  device = await openDevice();
  const { file, data } = matrix(500, 100);
  const open = (digest, cutAfter = Infinity) => StreamingLoader.open("/m.safetensors", {
    fetch: serverOf(file, (number) => (number > 0 ? { cutAfter } : {})).fetch, cache: "none", retry: { attempts: 0 },
    digests: { tensors: { m: digest } },
  });
  const destroyed = [];
  const watched = new Proxy(device, {
    get(target, property) {
      const value = target[property];
      if (property !== "createBuffer") return typeof value === "function" ? value.bind(target) : value;
      return (descriptor) => {
        const buffer = target.createBuffer(descriptor);
        const destroy = buffer.destroy.bind(buffer);
        buffer.destroy = () => (destroyed.push(descriptor.label), destroy());
        return buffer;
      };
    },
  });
  const right = `sha256:${await hex(data)}`;
  const loader = await open(right);
  failures.same("verified", (await loader.loadTensor("m", { device: watched })).verified, "sha256");
  failures.same("no buffer is destroyed", destroyed, []);
  const wrong = await open(`sha256:${"0".repeat(64)}`);
  await failures.rejects("a wrong digest", wrong.loadTensor("m", { device: watched }), "CHECKSUM");
  failures.same("the buffer is destroyed", destroyed, ["m"]);
  const cut = await open(right, 10_000);
  await failures.rejects("a broken connection", cut.loadTensor("m", { device }), "");
  await failures.rejects("an unknown name", loader.loadTensor("x", { device }), "NOT_FOUND");
  await failures.rejects("aborted", loader.loadTensor("m", { device, signal: AbortSignal.abort("why") }), "undefined");

  for (const [options, part] of [
    [{ device: {} }, "`device`"],
    [{ device, usage: "x" }, "`usage`"],
    [{ device, as: "F64" }, "`as`"],
    [{ usage: 1 }, "`usage` requires `device`"],
    [{ device, into: new ArrayBuffer(200_000) }, "`into`"],
  ]) {
    await failures.rejects(Object.keys(options).join(), loader.loadTensor("m", options), "INVALID_ARGUMENT", part);
  }
  await failures.rejects("a usage that is refused", loader.loadTensor("m", { device, usage: GPUBufferUsage.MAP_READ |
    GPUBufferUsage.STORAGE }), "INVALID_ARGUMENT", "`usage`");
  const lost = await openDevice();
  lost.destroy();
  await failures.rejects("a lost device", loader.loadTensor("m", { device: lost }), "INVALID_ARGUMENT", "lost");
  return failures;
}

// Between two tensors, the request waits for the next one.
export async function anAbortBetweenTensors() {
  const failures = new Failures();
  device = await openDevice();
  const header = JSON.stringify({
    a: { dtype: "U8", shape: [1_000_000], data_offsets: [0, 1_000_000] },
    b: { dtype: "U8", shape: [4_000_000], data_offsets: [1_000_000, 5_000_000] },
  });
  const file = content(8 + header.length + 5_000_000);
  new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
  file.set(new TextEncoder().encode(header), 8);
  const server = serverOf(file, () => ({ delay: 1 }));
  const controller = new AbortController();
  const loader = await StreamingLoader.open("/model.safetensors", { fetch: server.fetch, cache: "none", retry: RETRY });
  const tensors = loader.tensors({ device, signal: controller.signal });
  failures.same("the first tensor", (await tensors.next()).value.name, "a");
  const last = server.requests.at(-1);
  failures.same("the request", [last.sent < last.end - last.start, last.isAborted], [true, false]);
  controller.abort(new Error("the user left"));
  for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setTimeout(resolve));
  failures.same("the request is aborted", last.isAborted, true);
  await failures.rejects("the next tensor", tensors.next(), "the user left");
  loader.close();
  return failures;
}

export async function limitsOfTheDevice() {
  const failures = new Failures();
  device = await openDevice();
  const max = device.limits.maxBufferSize;
  const header = JSON.stringify({ big: { dtype: "U8", shape: [max + 4], data_offsets: [0, max + 4] } });
  const head = new Uint8Array(8 + header.length);
  new DataView(head.buffer).setBigUint64(0, BigInt(header.length), true);
  head.set(new TextEncoder().encode(header), 8);
  const slice = async (start, end) => {
    const bytes = new Uint8Array(end - start);
    bytes.set(head.subarray(start, end));
    return bytes.buffer;
  };
  const source = { byteLength: head.length + max + 4, slice };
  const loader = await StreamingLoader.open(source);
  await failures.rejects("a large tensor", loader.loadTensor("big", { device }), "LIMIT", "maxBufferSize", String(max));
  loader.close();
  return failures;
}

export async function integersAndUnknownDtypes() {
  const failures = new Failures();
  device = await openDevice();
  const loader = await StreamingLoader.open("/fixtures/safetensors/alltypes.safetensors", { cache: "none" });
  const index = await loader.loadIndex();
  const integer = index.find(({ dtype }) => dtype === "I32");
  failures.same("integers", (await loader.loadTensor(integer.name, { device, as: "F16" })).dtype, "I32");
  const double = index.find(({ dtype }) => dtype === "F64");
  const converted = loader.loadTensor(double.name, { device, as: "F32" });
  await failures.rejects("F64", converted, "UNSUPPORTED", double.name, "F64");
  const iterator = loader.tensors({ device });
  await iterator.next();
  await iterator.return();
  failures.same("after return", (await iterator.next()).done, true);
  loader.close();
  await failures.rejects("closed", loader.loadTensor(integer.name, { device }), "CLOSED");
  return failures;
}
