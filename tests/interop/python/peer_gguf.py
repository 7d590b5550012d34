"""The package `gguf`."""

import exchange
import numpy
from arrays import array
from exchange import Tensor
from gguf import GGUFEndian, GGUFReader, GGUFValueType, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

# The dtypes that the package accepts as numpy arrays, with the bytes of an element, and all its dtypes, with the
# elements and bytes of a block.
PLAIN = dict(F64=8, F32=4, F16=2, I64=8, I32=4, I16=2, I8=1)
# The package has 40 bytes for a block of Q8_1, and ggml 36.
ALL = {dtype.name: size for dtype, size in GGML_QUANT_SIZES.items() if dtype.name != "Q8_1"}

METADATA = {
    "x.u8": (GGUFValueType.UINT8, 255),
    "x.i8": (GGUFValueType.INT8, -128),
    "x.u16": (GGUFValueType.UINT16, 65535),
    "x.i16": (GGUFValueType.INT16, -32768),
    "x.u32": (GGUFValueType.UINT32, 2**32 - 1),
    "x.i32": (GGUFValueType.INT32, -(2**31)),
    "x.u64": (GGUFValueType.UINT64, 2**64 - 1),
    "x.i64": (GGUFValueType.INT64, -(2**63)),
    "x.f32": (GGUFValueType.FLOAT32, 0.5),
    "x.f64": (GGUFValueType.FLOAT64, 0.1),
    "x.bool": (GGUFValueType.BOOL, True),
    "naïve ✓": (GGUFValueType.STRING, '"層"\n'),
    "x.integers": (GGUFValueType.ARRAY, [1, -2, 3]),
    "x.texts": (GGUFValueType.ARRAY, ["a", "層", "\U0001f980"]),
}


def write(noise, folder):
    # The reader fails for a BF16 scalar, which it treats as blocks.
    save(folder / "all.gguf", [tensor for tensor in noise.tensors(ALL) if tensor.shape or tensor.dtype != "BF16"])
    save(folder / "aligned.gguf", list(noise.tensors(PLAIN)), alignment=256)
    save(folder / "big-endian.gguf", list(noise.tensors(PLAIN)), endianess=GGUFEndian.BIG)
    save(folder / "split.gguf", list(noise.tensors(PLAIN)), first="split-00001-of-00007.gguf", split_max_tensors=9)
    save(folder / "empty.gguf", [])


def save(file, tensors, alignment=None, first=None, **options):
    writer = GGUFWriter(file, "llama", **options)
    for key, (kind, value) in METADATA.items():
        writer.add_key_value(key, value, kind)
    if alignment:
        writer.add_custom_alignment(alignment)
    for tensor in tensors:
        writer.add_tensor(tensor.name, stored(tensor), raw_dtype=GGMLQuantizationType[tensor.dtype])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    metadata = {key: value for key, (_, value) in METADATA.items()} | {"general.architecture": "llama"}
    exchange.expect(file.with_name(first) if first else file, tensors, metadata)


def stored(tensor):
    """The array that the writer accepts: blocks are bytes along the last dimension."""
    elements, size = ALL[tensor.dtype]
    if elements == 1:
        return array(tensor)
    *outer, last = tensor.shape
    return numpy.frombuffer(tensor.data, "uint8").reshape(*outer, last // elements * size)


def read(file):
    parts = [file]
    if "-of-" in file:
        start, count = file.removesuffix(".gguf").rsplit("00001-of-", 1)
        parts = [f"{start}{at + 1:05}-of-{count}.gguf" for at in range(int(count))]
    readers = [GGUFReader(part) for part in parts]
    metadata = {key: field.contents() for key, field in readers[0].fields.items()}
    return [to_tensor(tensor) for reader in readers for tensor in reader.tensors], metadata


def to_tensor(tensor):
    data = tensor.data.astype(tensor.data.dtype.newbyteorder("<"))
    return Tensor(tensor.name, tensor.tensor_type.name, tensor.shape.tolist()[::-1], data.tobytes())


exchange.run(write, read)
