"""Reads the layout `byte_stream_split` of zTensor 1.2. `docs/formats.md` shows the reader."""

import cbor2
import numpy
import zstandard


def manifest(file):
    length = int.from_bytes(file[-16:-8], "little")
    return cbor2.loads(file[-16 - length : -16])


def array(file, tensor):
    parts = tensor["components"]
    streams = [stored_bytes(file, parts[f"stream_{at}"]) for at in range(len(parts))]
    kind = tensor.get("type", tensor["dtype"])[0].replace("b", "u")  # numpy has no bf16: u2 are its bits
    return numpy.stack(streams, axis=-1).view(f"<{kind}{len(parts)}").reshape(tensor["shape"])


def stored_bytes(file, part):
    stored = file[part["offset"] : part["offset"] + part["length"]]
    if part.get("encoding") == "zstd":
        stored = zstandard.ZstdDecompressor().stream_reader(stored, read_across_frames=True).read()
    return numpy.frombuffer(stored, "uint8")
