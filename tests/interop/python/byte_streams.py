"""Reads and writes the layout `byte_stream_split` of zTensor 1.2. `docs/formats.md` shows the reader."""

import hashlib
import struct

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


MAGIC = b"ZTEN1000"

# The number of bytes of an element, and the fields `dtype` and `type`.
DTYPES = dict(
    F64=(8, "f64"), F32=(4, "f32"), F16=(2, "f16"), BF16=(2, "bf16"), C64=(8, "f32", "complex64"),
    C128=(16, "f64", "complex128"), I64=(8, "i64"), I32=(4, "i32"), I16=(2, "i16"), U64=(8, "u64"), U32=(4, "u32"),
    U16=(2, "u16"), U8=(1, "u8"),
)  # fmt: skip


class Writer:
    """Writes a file of zTensor 1.2. Digests are `crc32c`, `sha256` or None."""

    def __init__(self):
        self.file = bytearray(MAGIC)
        self.objects = {}

    def add_dense(self, name, dtype, shape, data, digest=None):
        part = {**spelling(dtype), **self.blob(data, None, digest, 64)}
        self.objects[name] = {"shape": shape, "format": "dense", "components": {"data": part}}

    def add_split(self, name, dtype, shape, data, order, frames, digest=None, whole=None, align=64, attributes=None):
        """Adds a tensor in streams, which are stored in this order, a list of the significances.

        `frames` has the frames of each stream, least significant first: the `Frames` of its bytes, or None for raw
        bytes. `digest` is the algorithm for streams, `whole` that for the dense bytes.
        """
        width = DTYPES[dtype][0]
        streams = numpy.frombuffer(data, "uint8").reshape(-1, width).T
        parts = {}
        for at in order:
            part = self.blob(streams[at].tobytes(), frames[at], digest, align)
            parts[f"stream_{at}"] = {"dtype": "u8", **part}
        described = {"shape": shape, "format": "byte_stream_split", **spelling(dtype), "components": parts}
        if whole:
            described["digest"] = digest_of(whole, data)
        if attributes:
            described["attributes"] = attributes
        self.objects[name] = described

    def finish(self):
        encoded = cbor2.dumps({"version": "1.2.0", "objects": self.objects})
        return bytes(self.file + encoded + struct.pack("<Q", len(encoded)) + MAGIC)

    def blob(self, data, frames, digest, align):
        """Appends a blob at a multiple of `align` bytes. Returns the fields of a component that describe it."""
        self.file.extend(bytes(-len(self.file) % align))
        stored = frames.encode(data) if frames else data
        fields = {"offset": len(self.file), "length": len(stored)}
        if frames:
            fields |= {"uncompressed_length": len(data), "encoding": "zstd"}
        if digest:
            fields["digest"] = digest_of(digest, stored)
        self.file.extend(stored)
        return fields


def spelling(dtype):
    return dict(zip(("dtype", "type"), DTYPES[dtype][1:]))


class Frames:
    """Zstandard frames of this many bytes each, with a seek table if that is said; options are the compressor's."""

    def __init__(self, size, has_table, **options):
        self.size = size
        self.has_table = has_table
        self.compressor = zstandard.ZstdCompressor(**options)

    def encode(self, data):
        parts = [data[at : at + self.size] for at in range(0, len(data), self.size)] or [b""]
        frames = [self.compressor.compress(part) for part in parts]
        return b"".join(frames) + (seek_table(frames, parts) if self.has_table else b"")


def seek_table(frames, parts):
    """The table of the Zstandard seekable format, without checksums."""
    entries = b"".join(struct.pack("<II", len(frame), len(part)) for frame, part in zip(frames, parts))
    table = entries + struct.pack("<IBI", len(frames), 0, 0x8F92EAB1)
    return struct.pack("<II", 0x184D2A5E, len(table)) + table


def digest_of(algorithm, data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}" if algorithm == "sha256" else f"crc32c:0x{crc32c(data):08X}"


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def crc_entry(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC_TABLE = [crc_entry(byte) for byte in range(256)]
