"""The package `ztensor` 1.0 and 1.1, which have the same API and write different files."""

import exchange
import numpy
import ztensor
from arrays import array, name_of
from exchange import PLAIN, Parts, Tensor

# The components of indices of the sparse layouts.
ROLES = dict(sparse_csr=["indices", "indptr"], sparse_coo=["coords"])


def write(noise, folder):
    dense, sparse, empty = folder / "dense.zt", folder / "sparse.zt", folder / "empty.zt"
    tensors = list(noise.tensors(PLAIN))
    with ztensor.Writer(str(dense)) as writer:
        for at, tensor in enumerate(tensors):
            writer.add_tensor(tensor.name, array(tensor), compress=at % 2 == 1)
            # The writer stores a scalar as an array of one dimension.
            tensor.shape = tensor.shape or [1]
    exchange.expect(dense, tensors)

    tensors = []
    with ztensor.Writer(str(sparse)) as writer:
        for at in range(6):
            rows, columns, count = noise.randrange(1, 9), noise.randrange(1, 9), noise.randrange(20) if at else 0
            values = Tensor("", "F32", [count], noise.data(count * 4))
            indices = numpy.array([noise.randrange(columns) for _ in range(count)], "uint64")
            starts = numpy.array(sorted([0, count, *(noise.randrange(count + 1) for _ in range(rows - 1))]), "uint64")
            tensors.append(csr(noise.name(f"csr.{at}"), [rows, columns], values, indices, starts))
            writer.add_sparse_csr(tensors[-1].name, array(values), indices, starts, (rows, columns))
            coords = numpy.array([[noise.randrange(2) for _ in range(count)] for _ in range(3)], "uint64")
            tensors.append(coo(noise.name(f"coo.{at}"), [2, 2, 2], values, coords))
            writer.add_sparse_coo(tensors[-1].name, array(values), coords, (2, 2, 2))
    exchange.expect(sparse, tensors)

    with ztensor.Writer(str(empty)):
        pass
    exchange.expect(empty, [])


def csr(name, shape, values, indices, starts):
    parts = [("values", "F32", values.data), ("indices", "U64", indices.tobytes()), ("indptr", "U64", starts.tobytes())]
    return Parts(name, "F32", shape, "sparse_csr", parts)


def coo(name, shape, values, coords):
    parts = [("values", "F32", values.data), ("coords", "U64", coords.tobytes())]
    return Parts(name, "F32", shape, "sparse_coo", parts)


def read(file):
    with ztensor.Reader(file) as reader:
        return [one(reader, reader.metadata(name)) for name in reader.tensor_names], None


def one(reader, metadata):
    name, shape = metadata.name, list(metadata.shape)
    if metadata.layout not in ("dense", *ROLES):
        # Listed only: the package can read neither the tensor nor its components.
        return Parts(name, metadata.dtype_str, shape, metadata.layout, [])
    dtype = name_of(metadata.dtype)
    if metadata.layout == "dense":
        return Tensor(name, dtype, shape, reader.read_tensor(name).tobytes())

    def part(role, role_dtype):
        # `read_tensor` itself would require scipy.
        found, _ = reader._read_component(name, role, lambda: numpy.dtype("uint8"))
        return role, role_dtype, found.tobytes()

    parts = [part("values", dtype), *(part(role, "U64") for role in ROLES[metadata.layout])]
    return Parts(name, dtype, shape, metadata.layout, parts)


exchange.run(write, read)
