"""Shared code of the peers in Python: the command line, random tensors, and the JSON output.

    python3 PEER.py write SEED FOLDER   writes files with the tool, and FILE.expected.json for each
    python3 PEER.py read FILE           reads a file with the tool and prints its contents

Both describe tensors like `weightstream inspect --json --sha256`: dtypes in weightstream's spelling, shapes with the
outermost dimension first, sha256 over the decoded little-endian bytes.
"""

import hashlib
import json
import random
import sys
from dataclasses import dataclass
from math import prod
from pathlib import Path

# The dtypes that are not block-quantized, with the number of bytes of an element.
PLAIN = dict(F64=8, F32=4, F16=2, BF16=2, BOOL=1, I64=8, I32=4, I16=2, I8=1, U64=8, U32=4, U16=2, U8=1)

# The logical types of zTensor 1.2, and weightstream's names for them.
LOGICAL = dict(
    f8_e4m3fn="F8_E4M3", f8_e5m2="F8_E5M2", f8_e4m3fnuz="F8_E4M3FNUZ", f8_e5m2fnuz="F8_E5M2FNUZ", f8_e8m0="F8_E8M0",
    f4_e2m1="F4", complex64="C64", complex128="C128",
)  # fmt: skip

# Characters of every length in UTF-8, characters that JSON must escape, a combining one, and right-to-left ones.
LETTERS = 'aB.09_/ "\\\x7f\u00e9e\u0301\u0416\u05d0\u0639\u5c42\uff21\U0001f980\U00020000'


@dataclass
class Tensor:
    """A dense tensor with little-endian bytes; `attributes` or `encoding` is None if the tool does not report it."""

    name: str
    dtype: str
    shape: list
    data: bytes
    attributes: dict | None = None
    encoding: str | None = None

    def to_json(self):
        json_fields = {"name": self.name, "dtype": self.dtype, "shape": self.shape, "attributes": self.attributes}
        return {**json_fields, "encoding": self.encoding, "sha256": sha256(self.data)}


@dataclass
class Parts:
    """A tensor of several components: a role, a dtype and bytes for each."""

    name: str
    dtype: str
    shape: list
    layout: str
    components: list
    attributes: dict | None = None

    def to_json(self):
        parts = [{"role": role, "dtype": dtype, "sha256": sha256(data)} for role, dtype, data in self.components]
        json_fields = {"name": self.name, "dtype": self.dtype, "shape": self.shape, "attributes": self.attributes}
        return {**json_fields, "layout": self.layout, "components": parts}


def run(write, read):
    """Calls `write(noise, folder)`, or `read(file)`, which returns tensors and metadata, as the command line says."""
    match sys.argv[1:]:
        case ["write", seed, folder]:
            write(Noise(int(seed)), Path(folder))
        case ["read", file]:
            json.dump(listing(*read(file)), sys.stdout)
        case _:
            sys.exit(f"usage: {sys.argv[0]} write SEED FOLDER | read FILE")


def expect(file, tensors, metadata=None, checksums=()):
    """Writes the expected contents of a file: all its tensors, some or all of its metadata, and its checksums."""
    expected = {**listing(tensors, metadata), "checksums": checksums}
    Path(f"{file}.expected.json").write_text(json.dumps(expected))


def listing(tensors, metadata):
    """The contents of a file; `metadata` is None if the tool does not report it."""
    return {"tensors": [tensor.to_json() for tensor in tensors], "metadata": metadata}


class Noise(random.Random):
    """Random tensors, determined by a seed."""

    def tensors(self, dtypes):
        """Tensors of these dtypes; a number is the bytes of an element, a pair the elements and bytes of a block."""
        for dtype, size in dtypes.items():
            elements, block = size if isinstance(size, tuple) else (1, size)
            for at, shape in enumerate(self.shapes(elements)):
                count = prod(shape) // elements * block
                data = self.bools(count) if dtype == "BOOL" else self.data(count)
                yield Tensor(self.name(f"{dtype}.{at}"), dtype, shape, data)

    def shapes(self, block):
        """Scalars, empty tensors, odd shapes and a larger one. The last dimension is a multiple of `block`."""
        size = lambda: self.randrange(1, 8)
        shapes = [[], [0], [size(), 0, size()], [1, 1], *([size() for _ in range(rank)] for rank in (1, 2, 3, 4))]
        shapes.append([self.randrange(60, 90), self.randrange(200, 300) // min(block, 32)])
        return [[*shape[:-1], shape[-1] * block] if shape else shape for shape in shapes if shape or block == 1]

    def name(self, start):
        """A name that starts with `start`. It is unique if `start` is."""
        return f"{start} {''.join(self.choices(LETTERS, k=self.randrange(12)))}"

    def data(self, length):
        """Random bytes, compressible or not."""
        if self.random() < 0.5:
            return self.randbytes(length)
        pattern = self.randbytes(self.randrange(1, 40))
        return (pattern * (length // len(pattern) + 1))[:length]

    def bools(self, count):
        return bytes(self.choices((0, 1), k=count))


def sha256(data):
    return hashlib.sha256(data).hexdigest()
