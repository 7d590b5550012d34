"""The package `safetensors`, through the functions that its numpy and torch bindings use."""

import ctypes
from pathlib import Path

import exchange
from exchange import PLAIN, Tensor
from safetensors import TensorSpec, deserialize, safe_open, serialize_file

# The names of the dtypes in the package's writer. Its files use weightstream's names.
SPELLINGS = dict(
    F64="float64", F32="float32", F16="float16", BF16="bfloat16", BOOL="bool",
    I64="int64", I32="int32", I16="int16", I8="int8", U64="uint64", U32="uint32", U16="uint16", U8="uint8",
    F8_E4M3="float8_e4m3fn", F8_E5M2="float8_e5m2", F8_E8M0="float8_e8m0fnu", F8_E4M3FNUZ="float8_e4m3fnuz",
    F8_E5M2FNUZ="float8_e5m2fnuz", F4="float4_e2m1fn_x2", C64="complex64",
)  # fmt: skip
SPECIAL = {**{dtype: 1 for dtype in SPELLINGS if dtype.startswith("F8")}, "C64": 8, "F4": (2, 1)}
METADATA = {"format": "pt", "naïve ✓": '"quoted"\n層', "": ""}


def write(noise, folder):
    save(folder / "plain.safetensors", list(noise.tensors(PLAIN)), METADATA)
    save(folder / "special.safetensors", list(noise.tensors(SPECIAL)), METADATA)
    save(folder / "empty.safetensors", [], {})


def save(file, tensors, metadata):
    buffers = [ctypes.create_string_buffer(tensor.data, len(tensor.data)) for tensor in tensors]
    specs = {tensor.name: spec(tensor, buffer) for tensor, buffer in zip(tensors, buffers)}
    serialize_file(specs, file, metadata=metadata or None)
    exchange.expect(file, tensors, metadata)


def spec(tensor, buffer):
    shape = tensor.shape
    if tensor.dtype == "F4":
        # The writer expects the shape in pairs of elements, as in torch.
        shape = [*shape[:-1], shape[-1] // 2]
    return TensorSpec(
        dtype=SPELLINGS[tensor.dtype], shape=shape, data_ptr=ctypes.addressof(buffer), data_len=len(tensor.data)
    )


def read(file):
    with safe_open(file, "numpy") as opened:
        metadata = opened.metadata() or {}
    found = deserialize(Path(file).read_bytes())
    return [Tensor(name, t["dtype"], t["shape"], bytes(t["data"])) for name, t in found], metadata


exchange.run(write, read)
