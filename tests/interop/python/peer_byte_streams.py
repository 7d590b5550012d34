"""A reader and a writer of tensors in streams of bytes, of the packages `cbor2`, `numpy` and `zstandard` only."""

from pathlib import Path

import byte_streams
import exchange
import numpy
from byte_streams import DTYPES, Frames, Writer
from exchange import LOGICAL, Parts, Tensor

DIGESTS = [None, "crc32c", "sha256"]
LAYOUT = "byte_stream_split"
WIDTHS = {dtype: width for dtype, (width, *_) in DTYPES.items()}


def write(noise, folder):
    split(noise, folder / "split.zt")
    floats(noise, folder / "floats.zt")


def split(noise, file):
    """All dtypes and shapes, each stored in another way."""
    writer, tensors = Writer(), []
    for at, tensor in enumerate(noise.tensors({dtype: width for dtype, width in WIDTHS.items() if width > 1})):
        tensor.attributes = {"bits": at, "naïve ✓": '"層"'} if at % 3 == 0 else {}
        order = list(range(WIDTHS[tensor.dtype]))
        [order.sort, order.reverse, lambda: noise.shuffle(order)][at % 3]()
        writer.add_split(
            tensor.name, tensor.dtype, tensor.shape, tensor.data,
            order, [frames(noise) for _ in order], digest=DIGESTS[at % 3], whole=DIGESTS[at // 3 % 3],
            align=noise.choice([64, 256, 4096]), attributes=tensor.attributes,
        )  # fmt: skip
        tensors.append(listed_as_split(tensor))
        if at % 10 == 0:
            data = noise.data(noise.randrange(99))
            tensors.append(Tensor(noise.name(f"bytes.{at}"), "U8", [len(data)], data, encoding="raw"))
            writer.add_dense(tensors[-1].name, "U8", tensors[-1].shape, data, digest=DIGESTS[at % 3])
    save(file, writer, tensors, DIGESTS[1:])


def frames(noise):
    """How to store a stream: raw, in one frame, or in several, with and without what a frame may have."""
    if noise.random() < 0.4:
        return None
    size, has_table = noise.choice([(1 << 20, False), (1 << 20, True), (1000, False), (1000, True)])
    is_small = noise.random() < 0.5
    return Frames(size, has_table, level=noise.choice([1, 3, 19]), write_checksum=is_small, write_content_size=is_small)


def floats(noise, file):
    """Normally distributed numbers, whose exponents compress: weightstream splits those that are dense here."""
    random, writer, tensors = numpy.random.default_rng(noise.randrange(1 << 32)), Writer(), []
    for dtype in ("BF16", "F16", "F32", "F64", "C64", "C128"):
        # BF16 has streams of more than 1 MiB, so that weightstream writes several frames.
        shape = [1100, 1024] if dtype == "BF16" else [noise.randrange(80, 99), noise.randrange(200, 300)]
        width = WIDTHS[dtype]
        for is_split in (False, True):
            name, data = noise.name(f"{dtype}.{is_split}"), normal(random, dtype, shape)
            if is_split:
                order = sorted(range(width), key=lambda at: at != width - 1)
                stored = [None] * (width - 1) + [Frames(64 << 10, True, level=1)]
                writer.add_split(name, dtype, shape, data, order, stored, digest="sha256", whole="sha256")
                tensors.append(listed_as_split(Tensor(name, dtype, shape, data)))
            else:
                writer.add_dense(name, dtype, shape, data, digest="sha256")
                tensors.append(Tensor(name, dtype, shape, data, encoding="raw"))
    # Bytes that do not compress, and a tied tensor.
    noise_bytes = noise.randbytes(5000)
    writer.add_dense("noise", "U8", [5000], noise_bytes)
    tensors.insert(0, Tensor("noise", "U8", [5000], noise_bytes, encoding="raw"))
    writer.objects["tied"] = writer.objects[tensors[-1].name]
    tensors.append(Tensor("tied", dtype, shape, data, encoding=LAYOUT))
    save(file, writer, tensors, ["sha256"])


def normal(random, dtype, shape):
    """The bytes of normally distributed numbers; those of BF16 are the upper half of those of F32."""
    numbers = lambda kind: random.standard_normal(shape).astype(kind)
    match dtype:
        case "BF16":
            return (numbers("<f4").view("<u4") >> 16).astype("<u2").tobytes()
        case "C64" | "C128":
            kind = {"C64": "<c8", "C128": "<c16"}[dtype]
            return (numbers("<f8") + 1j * numbers("<f8")).astype(kind).tobytes()
        case _:
            return numbers(f"<f{WIDTHS[dtype]}").tobytes()


def listed_as_split(tensor):
    tensor.encoding = LAYOUT
    return tensor


def save(file, writer, tensors, checksums):
    file.write_bytes(writer.finish())
    exchange.expect(file, tensors, {}, checksums)


def read(file):
    data = Path(file).read_bytes()
    manifest = byte_streams.manifest(data)
    tensors = [one(data, name, tensor) for name, tensor in manifest["objects"].items()]
    return tensors, manifest.get("attributes", {})


def one(file, name, tensor):
    shape, layout, attributes = tensor["shape"], tensor["format"], tensor.get("attributes", {})
    for part in tensor["components"].values():
        compare(part, file[part["offset"] :][: part["length"]])
    if layout == LAYOUT:
        data = byte_streams.array(file, tensor).tobytes()
        compare(tensor, data)
        return listed_as_split(Tensor(name, dtype_of(tensor), shape, data, attributes))
    bytes_of = lambda part: byte_streams.stored_bytes(file, part).tobytes()
    parts = [(role, dtype_of(part), bytes_of(part)) for role, part in tensor["components"].items()]
    if layout == "dense":
        encoding = tensor["components"]["data"].get("encoding", "raw")
        return Tensor(name, parts[0][1], shape, parts[0][2], attributes, encoding)
    if layout.startswith("gguf."):
        return Tensor(name, layout.removeprefix("gguf.").removesuffix("/1").upper(), shape, parts[0][2], attributes)
    dtypes = {role: dtype for role, dtype, _ in parts}
    return Parts(name, dtypes.get("data") or dtypes.get("values") or parts[0][1], shape, layout, parts, attributes)


def compare(described, data):
    """Compares bytes with a digest, if there is one."""
    digest = described.get("digest")
    assert digest is None or digest == byte_streams.digest_of(digest.split(":")[0], data), "a digest does not match"


def dtype_of(described):
    """A logical type that is not in the list has weightstream's name already."""
    logical = described.get("type")
    return LOGICAL.get(logical, logical) or described["dtype"].upper()


exchange.run(write, read)
