// The types of the data of tensors. It is only type-checked, with every version and library of TypeScript.
import type { StreamingLoader, Tensor, TensorComponent, TensorData, TensorInfo, UnknownName } from "weightstream";
import moduleUrl from "weightstream/weightstream_bg.wasm";
import "weightstream/weightstream.worker.js";

// `Float32Array<ArrayBuffer>`, as TypeScript before 5.7 can write it.
type Floats = ReturnType<Float32ArrayConstructor["of"]>;
type Words = ReturnType<Uint16ArrayConstructor["of"]>;
type Bytes = ReturnType<Uint8ArrayConstructor["of"]>;

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function check<A, B>(same: Same<A, B>): void;

export async function followsTheDtype(loader: StreamingLoader, info: TensorInfo): Promise<void> {
  const tensor = await loader.loadTensor("a");
  check<Extract<typeof tensor.data, undefined>, undefined>(true);
  if (tensor.layout === "dense") {
    if (tensor.dtype === "F32") check<typeof tensor.data, Floats>(true);
    if (tensor.dtype === "F16" || tensor.dtype === "BF16") check<typeof tensor.data, Words>(true);
    if (tensor.dtype === "Q4_K" || tensor.dtype === "BOOL") check<typeof tensor.data, Bytes>(true);
  } else {
    check<typeof tensor.data, undefined>(true);
  }
  if (tensor.dtype === "F32" && tensor.data) check<typeof tensor.data, Floats>(true);
  if (tensor.data) check<typeof tensor.layout, "dense">(true);
  if (tensor.is("BF16")) check<typeof tensor.data, Words>(true);
  if (tensor.is("I64")) check<typeof tensor.data, ReturnType<BigInt64ArrayConstructor["of"]>>(true);
  // @ts-expect-error: a misspelled dtype.
  if (tensor.is("f32")) console.log(tensor.name);
  const values = tensor.components.get("values");
  if (values?.dtype === "U32") check<typeof values.data, ReturnType<Uint32ArrayConstructor["of"]>>(true);

  // A name that this version does not know.
  const names: string[] = [tensor.dtype, tensor.layout, info.dtype, info.layout];
  if (names.includes("NEW")) console.log(names);
  // @ts-expect-error: a misspelled dtype.
  if (tensor.dtype === "f32") console.log(tensor.dtype);
  // @ts-expect-error: only dense tensors have `data`.
  console.log(tensor.data.length);
}

export async function followsAs(loader: StreamingLoader, name: string, isHalf: boolean): Promise<void> {
  const floats = await loader.loadTensor(name, { as: "F32" });
  check<typeof floats.dtype, "F32">(true);
  check<typeof floats.data, Floats>(true);
  const dense = await loader.loadTensor(name, { as: "F32", layout: "dense" });
  check<typeof dense.data, Floats>(true);

  const halves = await loader.loadTensor(name, { as: "F16" });
  const first: number | undefined = halves.data[0];
  // @ts-expect-error: a `Float16Array`.
  check<typeof halves.data, Words>(true);
  console.log(first);
  // Not converted if `as` is undefined.
  const either = await loader.loadTensor(name, { as: isHalf ? "F16" : undefined, layout: "dense" });
  if (either.dtype === "F16") {
    const data: Words | typeof either.data = either.data;
    check<Extract<typeof data, Words>, Words>(true);
  }
  for await (const tensor of loader.tensors({ as: "F32" })) {
    const { dtype, layout, data } = tensor;
    if (layout === "dense" && dtype === "F32") check<typeof data, Floats>(true);
    if (tensor.is("F32")) check<typeof tensor.data, Floats>(true);
    type Kept = "I64" | "I32" | "I16" | "I8" | "U64" | "U32" | "U16" | "U8" | "BOOL";
    if (layout === "dense") check<typeof dtype, "F32" | Kept | UnknownName>(true);
  }
  for await (const { data } of loader.tensors({ layout: "dense" })) console.log(data.length);
}

export async function followsInto(loader: StreamingLoader, own: ArrayBuffer, memory: SharedArrayBuffer): Promise<void> {
  const filled = await loader.loadTensor("a", { into: new Float32Array(own), layout: "dense" });
  check<typeof filled.dtype, "F32" | "C64">(true);
  check<Floats extends typeof filled.data ? true : false, true>(true);
  const floats: Float32Array = filled.data;

  const shared = await loader.loadTensor("a", { into: memory, layout: "dense", as: "F32" });
  const same: SharedArrayBuffer = shared.data.buffer;
  if (shared.dtype === "F32") floats.set(shared.data);
  const isOwn = own.byteLength === same.byteLength;
  const plain = await loader.loadTensor("a", { into: isOwn ? own : undefined, layout: "dense" });
  if (plain.dtype === "F32") check<typeof plain.data, Floats>(true);
  const bytes = await loader.loadTensor("a", { into: new Uint8Array(own), layout: "dense" });
  if (bytes.dtype === "F32") check<Floats extends typeof bytes.data ? true : false, true>(true);
}

export async function fitsWebApis(loader: StreamingLoader, worker: Worker): Promise<void> {
  const tensor = await loader.loadTensor("a");
  if (!tensor.data) return;
  new Blob([tensor.data]);
  await crypto.subtle.digest("SHA-256", tensor.data);
  worker.postMessage(tensor, [tensor.data.buffer]);
  const known: [Tensor, TensorData, TensorComponent | undefined] =
    [tensor, tensor.data, tensor.components.get("data")];
  console.log(known, new URL(moduleUrl, "https://example.org/"));

  // @ts-expect-error: there is no option `sgnal`.
  await loader.loadTensor("a", { sgnal: new AbortController().signal });
  // @ts-expect-error: there is no option `into` for many tensors.
  loader.tensors({ into: new ArrayBuffer(8) });
  const { gpuBuffer } = await loader.loadTensor("a", { device: { createBuffer: () => 1, queue: {} }, as: "F32" });
  check<typeof gpuBuffer, number>(true);
}
