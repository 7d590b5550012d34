"""The package `ztensor` 1.2."""

import exchange
import numpy
import ztensor
from arrays import array, name_of
from exchange import PLAIN, Parts, Tensor

CHECKSUMS = ["none", "crc32c", "sha256"]


def write(noise, folder):
    dense, sparse, empty = folder / "dense.zt", folder / "sparse.zt", folder / "empty.zt"
    tensors = list(noise.tensors(PLAIN))
    with ztensor.Writer(str(dense)) as writer:
        for at, tensor in enumerate(tensors):
            writer.write_numpy(tensor.name, array(tensor), compress=[False, True, 19][at % 3], checksum=CHECKSUMS[at // 3 % 3])
            # The writer makes an array of one dimension of it.
            tensor.shape = tensor.shape or [1]
    exchange.expect(dense, tensors, checksums=CHECKSUMS[1:])

    tensors = []
    with ztensor.Writer(str(sparse)) as writer:
        for at in range(6):
            rows, columns, count = noise.randrange(1, 9), noise.randrange(1, 9), noise.randrange(20) if at else 0
            values = array(Tensor("", "F32", [count], noise.data(count * 4)))
            indices = numpy.array([noise.randrange(columns) for _ in range(count)], "uint64")
            starts = numpy.array(sorted([0, count, *(noise.randrange(count + 1) for _ in range(rows - 1))]), "uint64")
            coords = numpy.array([noise.randrange(2) for _ in range(3 * count)], "uint64")
            for layout, shape, parts in [
                ("sparse_csr", [rows, columns], dict(values=values, indices=indices, indptr=starts)),
                ("sparse_coo", [2, 2, 2], dict(values=values, coords=coords)),
                ("überraschung", [count], dict(values=values, zeros=coords)),
            ]:
                tensor = ztensor.Tensor(parts, shape=shape, dtype="float32", format=layout)
                name = noise.name(f"{layout}.{at}")
                writer.write(name, tensor, compress=at % 2 == 1, checksum=CHECKSUMS[at % 3])
                tensors.append(told(name, tensor))
    exchange.expect(sparse, tensors, checksums=CHECKSUMS[1:])

    ztensor.Writer(str(empty)).finish()
    exchange.expect(empty, [])


def read(file):
    with ztensor.Reader(file) as reader:
        return [told(name, reader.read(name)) for name in reader.keys()], None


def told(name, tensor):
    dtype, shape = name_of(tensor.dtype), list(tensor.shape)
    parts = [(role, name_of(data.dtype), data.tobytes()) for role, data in tensor.components.items()]
    if tensor.format == "dense":
        return Tensor(name, dtype, shape, parts[0][2])
    return Parts(name, dtype, shape, tensor.format, parts)


exchange.run(write, read)
